//! Expands an annotated function into one that takes the lock first. The generated code only calls
//! `tenure::__private`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Block, Error, Expr, Local, Pat, Result, Stmt, parse_quote};

use crate::args::{Args, OnBusy, OnFail, OnLost};
use crate::function::{Execution, Function, Output, boxed_body_mut};
use crate::key::borrowed;

pub(crate) fn expand(args: &Args, mut function: Function) -> Result<TokenStream> {
    check(args, &function)?;
    let (execution, output) = (function.execution, &function.output);
    let body = match execution {
        Execution::Boxed => boxed_body_mut(&mut function.item.block),
        Execution::Async | Execution::Plain => Some(&mut *function.item.block),
    };
    if let Some(body) = body {
        *body = wrap_body(args, execution, output, body);
    }
    let item = function.item;
    Ok(quote!(#item))
}

/// Checks that depend on both the arguments and the function.
fn check(args: &Args, function: &Function) -> Result<()> {
    if let (Some((OnLost::Cancel, at)), Execution::Plain) = (args.on_lost, function.execution) {
        let help = "a plain `fn` cannot be cancelled: it runs to its end, and its caller gets the error. Make it an \
                    `async fn`, or write `on_lost = finish`";
        return Err(Error::new(at, help));
    }
    let needs_error = matches!(args.on_busy, OnBusy::Error) && args.on_fail != Some(OnFail::Panic);
    if needs_error && function.output.is_hidden() {
        let help = "an `impl Trait` cannot carry the error of a lock that is busy or lost: return a `Result`, or add \
                    `on_busy = skip(value)`, `on_busy = call(function)` or `on_fail = panic`";
        return Err(Error::new(function.output.span, help));
    }
    Ok(())
}

/// Wraps the body in the code that takes the lock.
fn wrap_body(args: &Args, execution: Execution, output: &Output, body: &Block) -> Block {
    let call = call(args);
    let [call_var, held, error] = ["call", "held", "error"].map(|name| Ident::new(name, Span::mixed_site()));
    let returns = ReturnExprs { args, output, error: &error };
    let on_lost = returns.on_lost();
    let ty = &output.ty;
    // Gives the async block its result type, which the compiler cannot infer from the function.
    let typed = (!output.is_hidden()).then(
        || quote_spanned!(output.span=> if false { return ::tenure::__private::infer_return_type::<#ty>(); }),
    );
    let stmts = if execution == Execution::Boxed { mark_used(&body.stmts) } else { body.stmts.clone() };
    let (acquire, run) = match execution {
        Execution::Plain => (
            quote!(::tenure::__private::acquire_blocking(#call_var)),
            quote!(#held.run_blocking(move || -> #ty { #(#stmts)* })),
        ),
        Execution::Async | Execution::Boxed => (
            quote!(::tenure::__private::acquire(#call_var).await),
            quote!(#held.run(#on_lost, ::std::boxed::Box::pin(async move { #typed #(#stmts)* })).await),
        ),
    };
    let (ended, busy, failed) = (returns.ended(run), returns.busy(), returns.failed());
    parse_quote!({
        #[allow(unused_imports)]
        use ::tenure::__private::FallbackReturn as _;
        let #call_var = #call;
        match #acquire {
            ::tenure::__private::Acquisition::Held(#held) => #ended,
            ::tenure::__private::Acquisition::Busy(#error) => #busy,
            ::tenure::__private::Acquisition::Failed(#error) => #failed,
        }
    })
}

/// Adds a use of each argument that `async_trait` rebinds (`let id = id;`), so that one used only in the key causes no
/// "unused" warning.
fn mark_used(stmts: &[Stmt]) -> Vec<Stmt> {
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
            quote!(::tenure::__private::explicit_client(#client))
        }
        None => quote!(::tenure::__private::installed_client()),
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
struct ReturnExprs<'a> {
    args: &'a Args,
    output: &'a Output,
    error: &'a Ident,
}

impl ReturnExprs<'_> {
    fn panics(&self) -> bool {
        self.args.on_fail == Some(OnFail::Panic)
    }

    /// Whether the return type alone decides what a failure becomes: a `Result` gets the error, all others return
    /// their value for busy.
    fn depends_on_type(&self) -> bool {
        self.args.on_fail.is_none() && !matches!(self.args.on_busy, OnBusy::Error)
    }

    fn return_type_call(&self, method: &str, with: TokenStream) -> TokenStream {
        let (ty, method) = (&self.output.ty, Ident::new(method, self.output.span));
        if self.output.is_hidden() {
            quote!(::tenure::__private::FallbackReturn::#method(&::tenure::__private::ReturnType::<#ty>::new(), #with))
        } else {
            quote_spanned!(self.output.span=> ::tenure::__private::ReturnType::<#ty>::new().#method(#with))
        }
    }

    fn returns_error_call(&self, method: &str, with: TokenStream) -> TokenStream {
        let (ty, method) = (&self.output.ty, Ident::new(method, self.output.span));
        quote_spanned!(self.output.span=> <#ty as ::tenure::__private::ReturnsError>::#method(#with))
    }

    fn on_lost(&self) -> TokenStream {
        match self.args.on_lost {
            Some((OnLost::Finish, _)) => quote!(::tenure::__private::OnLost::Finish),
            None if self.depends_on_type() && self.output.is_hidden() => {
                quote!(::tenure::__private::OnLost::Finish)
            }
            None if self.depends_on_type() => self.return_type_call("on_lost", TokenStream::new()),
            _ => quote!(::tenure::__private::OnLost::Cancel),
        }
    }

    fn ended(&self, run: TokenStream) -> TokenStream {
        let cancels = matches!(self.args.on_lost, Some((OnLost::Cancel, _)));
        if self.panics() {
            quote!(#run.or_panic())
        } else if self.depends_on_type() && !cancels {
            self.return_type_call("body_value", run)
        } else {
            self.returns_error_call("from_body", run)
        }
    }

    fn busy(&self) -> TokenStream {
        let error = self.error;
        match &self.args.on_busy {
            OnBusy::Skip(value) => quote!({ let _ = #error; #value }),
            OnBusy::Call(function) => quote!((#function)(#error)),
            OnBusy::Error => self.error_expr(),
        }
    }

    fn failed(&self) -> TokenStream {
        if self.depends_on_type() {
            let (error, busy) = (self.error, self.busy());
            self.return_type_call("error_value", quote!(#error, |#error| #busy))
        } else {
            self.error_expr()
        }
    }

    fn error_expr(&self) -> TokenStream {
        let error = self.error;
        if self.panics() {
            quote!(::tenure::__private::panic_with(#error))
        } else {
            self.returns_error_call("from_error", quote!(#error))
        }
    }
}
