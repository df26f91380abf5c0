//! The attribute `#[distributed_lock]`. Use it by way of the crate `tenure`, which re-exports it.

mod args;
mod duration;
mod expand;
mod function;
mod key;

use proc_macro::TokenStream;

/// Holds a lock while the function runs.
///
/// ```
/// use tenure::distributed_lock;
///
/// # struct User { user_id: u64 }
/// # #[derive(Debug)] struct AppError;
/// # impl From<tenure::Error> for AppError { fn from(_: tenure::Error) -> Self { Self } }
/// #[distributed_lock(key = user.user_id, prefix = "ACCOUNT:DISTRIBUTEDLOCK:USER", wait = "5s")]
/// async fn handle(user: User) -> Result<String, AppError> {
///     // Nobody else is here for this user. If the lock is lost, this is dropped.
///     let current = tenure::current().expect("it is held");
///     Ok(format!("{} {:?}", current.name(), current.fence()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// tenure::install(tenure::connect("memory:").await?)?; // once, when the program starts
/// let said = handle(User { user_id: 42 }).await.unwrap();
/// assert!(said.starts_with("ACCOUNT:DISTRIBUTEDLOCK:USER:42 Some("));
/// # Ok(()) }
/// ```
///
/// The error type needs `From<tenure::Error>`. Functions may be `async` or plain, methods, generic, and methods of an
/// `async_trait`. A plain `fn` blocks its thread, and panics on one that drives async tasks.
///
/// # What is held
///
/// - **`key`**: an expression over the arguments, `user.user_id`; a text with placeholders, `"{tenant}-{id}"`; several
///   parts of one key, `(tenant, user.id)`; or several keys, all or nothing, `[from, to]`. It is made before the body
///   runs, and whatever implements `Display` can be one.
/// - **`keys`**: an iterator of keys, for as many as there are when the function is called.
/// - **`prefix`**: stands before each key. The name is prefix, `:`, key, byte for byte. Parts are joined by `:`; inside
///   a part `:` is written `%3A` and `%` is written `%25`.
/// - **`name`**: instead of a key, a whole name that is fixed elsewhere.
/// - **`kind`**: `lock` (default), `fair`, `read`, `write`, or `permits(n, limit)`.
/// - **`condition`**: where it is false, the body runs without a lock.
/// - **`client`**: a `Client`, a `blocking::Client`, a reference to one or an `Arc` of one. By default the one given to
///   `tenure::install`; where there is none, the call is an error that says so.
///
/// # For how long
///
/// Durations are texts such as `"300ms"` or `"1m30s"`, or expressions of type `Duration`.
///
/// - **`wait`**: how long to wait for it; `"0s"` not at all. By default for ever.
/// - **`lease`**: held for that long and never renewed. By default it is renewed while the body runs.
/// - **`max_hold`**: the lock is lost after that long, however alive its holder is.
///
/// # What the caller hears
///
/// - **`on_busy`**: when others held it for all of `wait`. `error` (default) is `Error::Busy`, `skip(value)` that value,
///   `call(function)` what a function makes of the error. The value may use the arguments.
/// - **`on_lost`**: when the lock is lost while the body runs. `cancel` (default) drops the body, `finish` lets it run
///   to its end; both ways the caller gets `Error::Lost`. A plain `fn` always finishes.
/// - **`on_fail`**: whether any other failure is an `error` (default) or a `panic`.
///
/// A function whose result is not a `Result` needs `on_busy = skip(…)`, `on_busy = call(…)` or `on_fail = panic`. Unless
/// it panics, a failure is then answered as if it were busy, its body is never dropped, and both are logged as errors.
///
/// A body that returned `Ok` and then turns out to have lost its lock is an error: somebody else may have been there. A
/// release that is not answered is none: the lock was held until the body was done, and its lease ends it.
///
/// # Calls inside calls
///
/// A call enters again what the calls around it hold, and nothing else: two functions that call each other do not
/// wait for themselves, while branches of `join!` and spawned tasks exclude each other. A read under a write is let in,
/// a write under a read is an error at once, and permits are taken anew by each call. A lock that the body takes by hand
/// is somebody else's.
///
/// ```
/// # use tenure::{Client, Result, distributed_lock};
/// #[distributed_lock(key = "stock", client = client)]
/// async fn sell(client: &Client) -> Result<u32> {
///     count(client).await // enters again
/// }
///
/// #[distributed_lock(key = "stock", client = client)]
/// async fn count(client: &Client) -> Result<u32> {
///     Ok(42)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let client = tenure::connect("memory:").await?;
/// assert_eq!(sell(&client).await?, 42);
/// # Ok(()) }
/// ```
///
/// # Cancel safety
/// As safe as the body is: dropped while it waits, a call leaves nothing behind; dropped while it runs, the body goes
/// first and then the lock is released.
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    let item = proc_macro2::TokenStream::from(item);
    let expanded = syn::parse(args)
        .and_then(|args| expand::expand(&args, function::Function::parse(item.clone())?))
        // The function is left as it stands, so that nothing else is reported about it or its callers.
        .unwrap_or_else(|error| {
            let error = error.to_compile_error();
            quote::quote!(#error #[allow(unused)] #item)
        });
    expanded.into()
}
