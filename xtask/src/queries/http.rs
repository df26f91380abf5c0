//! Asks a server on this machine, in HTTP 1.0: the answer ends with the connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// For a server that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The body of the answer, whatever its status.
///
/// # Errors
/// When there is no answer.
pub(super) fn get(address: &str, path: &str) -> Result<String, String> {
    let answer = ask(address, path).map_err(|e| format!("http://{address}{path}: {e}"))?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or(format!("http://{address}{path}: half an answer"))?;
    Ok(body.to_owned())
}

fn ask(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// As a part of a query string.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    #[test]
    fn a_page_is_read_to_its_end() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap().to_string();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            // To its end: a connection with something unread is reset.
            let asked =
                BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let asked: Vec<String> = asked.collect();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\none\n\r\n\r\ntwo").unwrap();
            asked
        });
        let page = get(&address, &format!("/?q={}", encoded("a b"))).unwrap();
        assert_eq!(page, "one\n\r\n\r\ntwo");
        assert_eq!(serving.join().unwrap()[0], "GET /?q=a%20b HTTP/1.0");
    }
}
