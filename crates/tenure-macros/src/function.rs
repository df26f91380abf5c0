//! Parses the annotated function: which functions can be locked, and what they return.

use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::visit_mut::{VisitMut, visit_type_mut};
use syn::{
    Block, Error, Expr, ExprAsync, GenericArgument, ItemFn, PathArguments, Result, ReturnType, Safety, Stmt,
    TraitItemFn, Type, TypeParamBound, parse_quote_spanned,
};

/// How a function runs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Execution {
    /// An `async fn`.
    Async,
    /// An `async fn` that another macro, such as `async_trait`, turned into a function that returns a boxed future.
    Boxed,
    /// It blocks its thread.
    Plain,
}

pub(crate) struct Function {
    pub(crate) item: ItemFn,
    pub(crate) execution: Execution,
    pub(crate) output: Output,
}

/// What a function returns, after awaiting if it is async.
pub(crate) struct Output {
    /// The type, with `_` for each `impl Trait`: those cannot be named.
    pub(crate) ty: Type,
    pub(crate) span: Span,
}

impl Output {
    /// Whether the whole type is an `impl Trait`.
    pub(crate) fn is_hidden(&self) -> bool {
        matches!(self.ty, Type::Infer(_))
    }
}

impl Function {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let item: ItemFn = match syn::parse2(tokens.clone()) {
            Ok(item) => item,
            Err(error) => return Err(not_a_function(tokens, error)),
        };
        let sig = &item.sig;
        let refuse = |at: Span, help: &str| Err(Error::new(at, help));
        if let Some(word) = &sig.constness {
            return refuse(
                word.span(),
                "a `const fn` cannot wait for a lock: drop `const`, or lock where it is called",
            );
        }
        if let Safety::Unsafe(word) = &sig.safety {
            return refuse(
                word.span(),
                "an `unsafe fn` cannot be locked as a whole: annotate a safe function that calls it",
            );
        }
        if let Some(abi) = &sig.abi {
            return refuse(
                abi.span(),
                "an `extern fn` cannot be locked: annotate a Rust function that it calls",
            );
        }
        let (returned, span) = match &sig.output {
            ReturnType::Default => (parse_quote_spanned!(sig.ident.span()=> ()), sig.ident.span()),
            ReturnType::Type(_, ty) => ((**ty).clone(), ty.span()),
        };
        let (execution, ty) = match future_output(&returned) {
            _ if sig.asyncness.is_some() => (Execution::Async, returned),
            None => (Execution::Plain, returned),
            Some(Some(output)) if boxed_body(&item.block).is_some() => (Execution::Boxed, output),
            Some(_) => {
                let help = "the lock would be released before the future runs: make it an `async fn`";
                return Err(Error::new(span, help));
            }
        };
        Ok(Self { item, execution, output: Output { ty: without_impl(ty), span } })
    }
}

fn not_a_function(tokens: TokenStream, error: Error) -> Error {
    if let Ok(declared) = syn::parse2::<TraitItemFn>(tokens.clone()) {
        let help = "a function without a body cannot be locked: annotate its implementation";
        return Error::new(declared.sig.ident.span(), help);
    }
    match syn::parse2::<syn::Item>(tokens) {
        Ok(item) => Error::new_spanned(
            item,
            "only functions can be locked: annotate each function that needs the lock",
        ),
        Err(_) => error,
    }
}

/// Replaces each `impl Trait` by `_`, since such a type cannot be named.
fn without_impl(mut ty: Type) -> Type {
    struct Hide;
    impl VisitMut for Hide {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if let Type::ImplTrait(hidden) = ty {
                *ty = parse_quote_spanned!(hidden.span()=> _);
            } else {
                visit_type_mut(self, ty);
            }
        }
    }
    Hide.visit_type_mut(&mut ty);
    ty
}

/// Whether a type is recognisable as a future: `Some(None)` if it is, `Some(Some(output))` if it is boxed and pinned.
fn future_output(ty: &Type) -> Option<Option<Type>> {
    match ty {
        Type::ImplTrait(hidden) => hidden.bounds.iter().find_map(output_of).map(|_| None),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            if last.ident == "BoxFuture" || last.ident == "LocalBoxFuture" {
                return Some(None);
            }
            let pinned = argument(ty, "Pin");
            match argument(pinned.unwrap_or(ty), "Box")? {
                Type::TraitObject(object) => {
                    let output = object.bounds.iter().find_map(output_of)?;
                    Some(pinned.map(|_| output))
                }
                Type::ImplTrait(hidden) => hidden.bounds.iter().find_map(output_of).map(|_| None),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `T` of `Outer<T>`.
fn argument<'a>(ty: &'a Type, outer: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|s| s.ident == outer)?;
    let PathArguments::AngleBracketed(args) = &last.arguments else { return None };
    args.args.iter().find_map(|arg| match arg {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// `T` of the bound `Future<Output = T>`.
fn output_of(bound: &TypeParamBound) -> Option<Type> {
    let TypeParamBound::Trait(bound) = bound else { return None };
    let last = bound.path.segments.last().filter(|s| s.ident == "Future")?;
    let PathArguments::AngleBracketed(args) = &last.arguments else { return None };
    args.args.iter().find_map(|arg| match arg {
        GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(assoc.ty.clone()),
        _ => None,
    })
}

/// The body of a function that does nothing but return `Box::pin(async move { … })`.
fn boxed_body(block: &Block) -> Option<&ExprAsync> {
    let [Stmt::Expr(Expr::Call(call), None)] = &block.stmts[..] else { return None };
    let Expr::Path(function) = &*call.func else { return None };
    let is_pin = function.path.segments.iter().rev().map(|s| s.ident.to_string()).take(2).eq(["pin", "Box"]);
    match call.args.first() {
        Some(Expr::Async(body)) if is_pin && body.capture.is_some() => Some(body),
        _ => None,
    }
}

/// Mutable version of [`boxed_body`]: the block inside, to be replaced.
pub(crate) fn boxed_body_mut(block: &mut Block) -> Option<&mut Block> {
    boxed_body(block)?;
    let [Stmt::Expr(Expr::Call(call), None)] = &mut block.stmts[..] else { return None };
    match call.args.first_mut() {
        Some(Expr::Async(body)) => Some(&mut body.block),
        _ => None,
    }
}
