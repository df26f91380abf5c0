//! Expands an annotated function into one that takes the lock first. The generated code only calls
//! `tenure::__private`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Block, Error, Expr, Local, Pat, Result, Stmt, parse_quote};

use crate::args::{Args, OnBusy, OnFail, OnLost};
use crate::function::{Function, Output, Runs, boxed_body_mut};
use crate::key::borrowed;

pub(crate) fn expand(args: &Args, mut function: Function) -> Result<TokenStream> {
    check(args, &function)?;
    let (runs, output) = (function.runs, &function.output);
    let body = match runs {
        Runs::Boxed => boxed_body_mut(&mut function.item.block),
        Runs::Async | Runs::Plain => Some(&mut *function.item.block),
    };
    if let Some(body) = body {
        *body = locked(args, runs, output, body);
    }
    let item = function.item;
    Ok(quote!(#item))
}

/// Checks that depend on both the arguments and the function.
fn check(args: &Args, function: &Function) -> Result<()> {
    if let (Some((OnLost::Cancel, at)), Runs::Plain) = (args.on_lost, function.runs) {
        let help = "a plain `fn` cannot be stopped halfway: it runs to its end, and its caller gets the error. Make it \
                    an `async fn`, or say `on_lost = finish`";
        return Err(Error::new(at, help));
    }
    let answers = matches!(args.on_busy, OnBusy::Error) && args.on_fail != Some(OnFail::Panic);
    if answers && function.output.is_hidden() {
        let help = "an `impl Trait` cannot tell the caller that the lock was busy or lost: return a `Result`, or say \
                    `on_busy = skip(value)`, `on_busy = call(function)` or `on_fail = panic`";
        return Err(Error::new(function.output.span, help));
    }
    Ok(())
}

/// Wraps the body in the code that takes the lock.
fn locked(args: &Args, runs: Runs, output: &Output, body: &Block) -> Block {
    let call = call(args);
    let [asked, inside, error] =
        ["asked", "inside", "error"].map(|name| Ident::new(name, Span::mixed_site()));
    let answers = Answers { args, output, error: &error };
    let on_lost = answers.on_lost();
    let ty = &output.ty;
    // Gives the async block its result type, which the compiler cannot infer from the function.
    let typed = (!output.is_hidden())
        .then(|| quote_spanned!(output.span=> if false { return ::tenure::__private::never::<#ty>(); }));
    let stmts = if runs == Runs::Boxed { used(&body.stmts) } else { body.stmts.clone() };
    let (enter, run) = match runs {
        Runs::Plain => (
            quote!(::tenure::__private::enter_blocking(#asked)),
            quote!(#inside.run_blocking(move || -> #ty { #(#stmts)* })),
        ),
        Runs::Async | Runs::Boxed => (
            quote!(::tenure::__private::enter(#asked).await),
            quote!(#inside.run(#on_lost, ::std::boxed::Box::pin(async move { #typed #(#stmts)* })).await),
        ),
    };
    let (ended, busy, failed) = (answers.ended(run), answers.busy(), answers.failed());
    parse_quote!({
        #[allow(unused_imports)]
        use ::tenure::__private::Otherwise as _;
        let #asked = #call;
        match #enter {
            ::tenure::__private::Entered::In(#inside) => #ended,
            ::tenure::__private::Entered::Busy(#error) => #busy,
            ::tenure::__private::Entered::Failed(#error) => #failed,
        }
    })
}

/// Adds a use of each argument that `async_trait` rebinds (`let id = id;`), so that one used only in the key causes no
/// "unused" warning.
fn used(stmts: &[Stmt]) -> Vec<Stmt> {
    let mut all = Vec::new();
    for stmt in stmts {
        all.push(stmt.clone());
        if let Stmt::Local(Local { pat: Pat::Ident(name), init: Some(init), .. }) = stmt
            && matches!(&*init.expr, Expr::Path(argument) if argument.path.is_ident(&name.ident))
        {
            let name = &name.ident;
            all.push(parse_quote!(let _ = &#name;));
        }
    }
    all
}

/// An expression for the `Call`. It evaluates the keys before the body can move the values that they are made of.
fn call(args: &Args) -> TokenStream {
    let client = match &args.client {
        Some(client) => {
            let client = borrowed(client);
            quote!(::tenure::__private::given(#client))
        }
        None => quote!(::tenure::__private::installed()),
    };
    let names = args.keys.names(args.prefix.as_ref());
    let options = &args.options;
    let call = quote!(::core::option::Option::Some(::tenure::__private::Call::new(#client, #names)#options));
    match &args.condition {
        Some(condition) => {
            let locks = Ident::new("locks", Span::mixed_site());
            quote!({
                let #locks: bool = #condition;
                if #locks { #call } else { ::core::option::Option::None }
            })
        }
        None => call,
    }
}

/// Generates what the function returns.
struct Answers<'a> {
    args: &'a Args,
    output: &'a Output,
    error: &'a Ident,
}

impl Answers<'_> {
    fn panics(&self) -> bool {
        self.args.on_fail == Some(OnFail::Panic)
    }

    /// Whether the return type alone decides what a failure becomes: a `Result` gets the error, all others return
    /// their value for busy.
    fn by_type(&self) -> bool {
        self.args.on_fail.is_none() && !matches!(self.args.on_busy, OnBusy::Error)
    }

    fn answer(&self, method: &str, with: TokenStream) -> TokenStream {
        let (ty, method) = (&self.output.ty, Ident::new(method, self.output.span));
        if self.output.is_hidden() {
            quote!(::tenure::__private::Otherwise::#method(&::tenure::__private::Answer::<#ty>::new(), #with))
        } else {
            quote_spanned!(self.output.span=> ::tenure::__private::Answer::<#ty>::new().#method(#with))
        }
    }

    fn outcome(&self, method: &str, with: TokenStream) -> TokenStream {
        let (ty, method) = (&self.output.ty, Ident::new(method, self.output.span));
        quote_spanned!(self.output.span=> <#ty as ::tenure::__private::Outcome>::#method(#with))
    }

    fn on_lost(&self) -> TokenStream {
        match self.args.on_lost {
            Some((OnLost::Finish, _)) => quote!(::tenure::__private::OnLost::Finish),
            None if self.by_type() && self.output.is_hidden() => quote!(::tenure::__private::OnLost::Finish),
            None if self.by_type() => self.answer("on_lost", TokenStream::new()),
            _ => quote!(::tenure::__private::OnLost::Cancel),
        }
    }

    fn ended(&self, run: TokenStream) -> TokenStream {
        let cancels = matches!(self.args.on_lost, Some((OnLost::Cancel, _)));
        if self.panics() {
            quote!(#run.or_panic())
        } else if self.by_type() && !cancels {
            self.answer("ended", run)
        } else {
            self.outcome("ended", run)
        }
    }

    fn busy(&self) -> TokenStream {
        let error = self.error;
        match &self.args.on_busy {
            OnBusy::Skip(value) => quote!({ let _ = #error; #value }),
            OnBusy::Call(function) => quote!((#function)(#error)),
            OnBusy::Error => self.unable(),
        }
    }

    fn failed(&self) -> TokenStream {
        if self.by_type() {
            let (error, busy) = (self.error, self.busy());
            self.answer("failed", quote!(#error, |#error| #busy))
        } else {
            self.unable()
        }
    }

    fn unable(&self) -> TokenStream {
        let error = self.error;
        if self.panics() {
            quote!(::tenure::__private::refuse(#error))
        } else {
            self.outcome("failed", quote!(#error))
        }
    }
}
