//! The attribute `#[distributed_lock]`. Use it through the crate `tenure`, which re-exports it.

mod args;
#[allow(unreachable_pub, reason = "the file is shared with a crate that exports it")]
mod duration;
mod expand;
mod function;
mod key;

use proc_macro::TokenStream;

/// Re-exported as `tenure::distributed_lock`.
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    let item = proc_macro2::TokenStream::from(item);
    let expanded = syn::parse(args)
        .and_then(|args| expand::expand(&args, function::Function::parse(item.clone())?))
        // The function is emitted unchanged, so that the compiler reports no follow-up errors about it or its callers.
        .unwrap_or_else(|error| {
            let error = error.to_compile_error();
            quote::quote!(#error #[allow(unused)] #item)
        });
    expanded.into()
}
