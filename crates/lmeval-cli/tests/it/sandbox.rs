//! Code that tries to escape the sandbox. If the kernel lacks a protection, the report must say so.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use lmeval_testkit::{TestContext, is_ci, skip};
use serde_json::Value;

use crate::context;

/// The outcome of a program.
struct Outcome {
    result: String,
    limits: Value,
}

impl Outcome {
    /// Whether a limit was in force; one that was not must have a reason. CI requires all of them, except for the number of
    /// threads, which the kernel does not limit for root.
    fn has(&self, limit: &str) -> bool {
        let state = &self.limits[limit];
        let in_force = state["in_force"].as_bool().unwrap_or_else(|| panic!("no limit `{limit}`"));
        let text = if in_force { "limit" } else { "reason" };
        assert!(!state[text].as_str().unwrap().is_empty(), "{limit}: {state}");
        let is_excused = limit == "threads" && is_root();
        assert!(in_force || is_excused || !is_ci() || !cfg!(target_os = "linux"), "{limit}: {state}");
        in_force
    }

    /// Checks that the code did not report this word, if the limit was in force.
    fn never_says(&self, word: &str, limit: &str) {
        assert!(!(self.has(limit) && self.result.contains(word)), "{limit}: {}", self.result);
    }
}

fn read(output: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(output);
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    Outcome { result: value["result"].as_str().unwrap().to_owned(), limits: value["limits"].clone() }
}

/// Runs a program that reports by raising. Temporary folders are created in `tmp` of the context.
fn attempt(context: &TestContext, program: &str, arguments: &[&str]) -> Outcome {
    let path = context.write("program.py", program);
    context.write("tmp/.keep", "");
    let mut command = context.command(&[&["sandbox", path.to_str().unwrap(), "--json"], arguments].concat());
    command = command.env("TMPDIR", context.work().join("tmp")).env("LM_EVAL_SECRET", "hush-hush");
    read(command.run().stdout.as_bytes())
}

/// Programs of the sandbox that still run, recognized by the temporary folder in their environment.
fn survivors(context: &TestContext) -> Vec<String> {
    let mark = format!("TMPDIR={}/lm-eval-code-", context.work().join("tmp").display());
    let processes = fs_err::read_dir("/proc").unwrap().flatten();
    let environments = processes.filter_map(|process| {
        let text = fs_err::read(process.path().join("environ")).ok()?;
        String::from_utf8_lossy(&text).contains(&mark).then(|| process.path().display().to_string())
    });
    environments.collect()
}

fn is_clean(context: &TestContext) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !survivors(context).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(survivors(context).is_empty(), "{:?}", survivors(context));
    let left = fs_err::read_dir(context.work().join("tmp")).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.filter(|name| name != ".keep").collect::<Vec<_>>(), Vec::<std::ffi::OsString>::new());
}

#[test]
fn programs_pass_and_fail_by_the_metric() {
    let context = context();
    assert_eq!(attempt(&context, "def f(x): return x + 1\nassert f(1) == 2", &[]).result, "passed");
    assert_eq!(attempt(&context, "assert 1 == 2", &[]).result, "failed: ");
    assert_eq!(attempt(&context, "raise ValueError('a\\n☃')", &[]).result, "failed: a\n☃");
    let syntax = attempt(&context, "def f(:", &[]).result;
    assert!(syntax.starts_with("failed: ") && syntax.contains("<string>, line 1"), "{syntax}");
    assert_eq!(attempt(&context, "if __name__ == '__main__': assert False", &[]).result, "passed");
    assert_eq!(attempt(&context, "import sys; sys.exit(3)", &[]).result, "failed: 3");
    // By the metric's rules, a process that exits without a result has timed out.
    assert_eq!(attempt(&context, "import os; os._exit(0)", &[]).result, "timed out");
    let crash = "import ctypes; ctypes.string_at(0)";
    assert_eq!(attempt(&context, crash, &[]).result, "timed out");
    let work = "open('a', 'w').write('x'); assert open('a').read() == 'x'\nimport asyncio\nasyncio.run(asyncio.sleep(0))\n\
                import threading\nt = threading.Thread(target=int); t.start(); t.join()";
    assert_eq!(attempt(&context, work, &[]).result, "passed");
    is_clean(&context);
}

#[test]
fn blocks_the_network() {
    let context = context();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let name = format!("lm-eval-test-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
    let unix = UnixListener::bind_addr(&abstract_name).unwrap();
    unix.set_nonblocking(true).unwrap();
    let file = context.work().join("named.sock");
    let named = UnixListener::bind(&file).unwrap();
    named.set_nonblocking(true).unwrap();
    let program = format!(
        "import socket\nreached = []\n\
         def attempt(name, f):\n    try:\n        f(); reached.append(name)\n    except BaseException as error:\n        pass\n\
         attempt('tcp', lambda: socket.create_connection(('127.0.0.1', {}), 1))\n\
         attempt('udp', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {})))\n\
         attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'))\n\
         attempt('named', lambda: socket.socket(socket.AF_UNIX).connect('{}'))\n\
         attempt('listen', lambda: socket.create_server(('0.0.0.0', 0)))\n\
         attempt('raw', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))\n\
         raise Exception(f'REACHED {{reached}}')",
        tcp.local_addr().unwrap().port(),
        udp.local_addr().unwrap().port(),
        file.display()
    );
    let outcome = attempt(&context, &program, &[]);
    if outcome.has("network") && outcome.has("system calls") {
        assert_eq!(outcome.result, "failed: REACHED []");
        assert_eq!(tcp.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(udp.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(unix.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(named.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

/// A program that tries socket pairs of every type: whether they can be created, and whether a message or a descriptor
/// reaches a named socket. A stream pair must keep working.
fn pairs_program(path: &Path, abstract_name: &str) -> String {
    format!(
        "import array, socket\nreached = []\n\
         def attempt(name, f):\n    try:\n        f(); reached.append(name)\n    except BaseException as error:\n        pass\n\
         rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))]\n\
         places = {{'path': '{}', 'abstract': '\\0{abstract_name}'}}\n\
         kinds = {{'stream': 1, 'datagram': 2, 'raw': 3, 'reliable': 4, 'packets': 5, 'flags': 2 | socket.SOCK_NONBLOCK}}\n\
         for kind, number in kinds.items():\n    \
         try: one, other = socket.socketpair(socket.AF_UNIX, number)\n    \
         except OSError: continue\n    \
         if kind != 'stream': reached.append(kind)\n    \
         for place, address in places.items():\n        \
         attempt(f'{{kind}} sendto {{place}}', lambda: one.sendto(b'leak', address))\n        \
         attempt(f'{{kind}} rights {{place}}', lambda: one.sendmsg([b'leak'], rights, 0, address))\n        \
         attempt(f'{{kind}} connect {{place}}', lambda: one.connect(address))\n\
         attempt('tipc', lambda: socket.socketpair(30, 1))\n\
         one, other = socket.socketpair()\none.sendall(b'x')\nassert other.recv(1) == b'x'\n\
         raise Exception(f'REACHED {{reached}}')",
        path.display()
    )
}

#[test]
fn socket_pairs_reach_no_other_socket() {
    let context = context();
    let path = context.work().join("datagrams.sock");
    let named = UnixDatagram::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let name = format!("lm-eval-datagrams-{}", std::process::id());
    let hidden = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    for socket in [&named, &hidden] {
        socket.set_nonblocking(true).unwrap();
    }
    let outcome = attempt(&context, &pairs_program(&path, &name), &[]);
    if outcome.has("system calls") {
        assert_eq!(outcome.result, "failed: REACHED []");
        for socket in [&named, &hidden] {
            assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    }
}

/// Descriptors left open by the caller are closed for the code.
#[test]
fn closes_inherited_descriptors() {
    let context = context();
    context.write(
        "program.py",
        "import posix\nfound = []\nfor number in [*range(3, 64), 1000]:\n    \
         try: posix.write(number, b'LEAKED\\n'); found.append(number)\n    except OSError: pass\n\
         raise Exception('done')",
    );
    let binary = env!("CARGO_BIN_EXE_lm-eval");
    let line = format!("exec 3>three.txt 7>seven.txt 9</dev/null; exec {binary} sandbox program.py --json");
    let output = Command::new("sh").args(["-c", &line]).current_dir(context.work()).output().unwrap();
    assert_eq!(read(&output.stdout).result, "failed: done");
    for name in ["three.txt", "seven.txt"] {
        assert_eq!(fs_err::read_to_string(context.work().join(name)).unwrap(), "", "{name}");
    }
}

/// Imports run first: their crash is a failure of the code that imports them.
#[test]
fn crashing_import_fails_only_its_program() {
    let context = context();
    // Modules are found where the interpreter has its files, and run code when imported.
    let module = context.write("modules/crashes.py", "import os\nos._exit(3)\n");
    context.write("modules/faults.py", "import ctypes\nctypes.string_at(0)\n");
    let folder = module.parent().unwrap().display().to_string();
    let question = "import json, os, sys; print(json.dumps({'executable': os.path.realpath(sys.executable), \
                    'read': [sys.prefix, sys.base_prefix, sys.argv[1]], 'path': [*filter(None, sys.path), sys.argv[1]]}))";
    let output = Command::new("python3").args(["-I", "-c", question, &folder]).output().unwrap();
    let interpreter = String::from_utf8(output.stdout).unwrap();
    for program in ["import crashes", "import faults\nassert True", "import math, crashes"] {
        let outcome = attempt(&context, program, &["--interpreter", interpreter.trim()]);
        assert_eq!(outcome.result, "timed out", "{program}");
        assert!(outcome.has("environment"));
    }
    is_clean(&context);
}

#[test]
fn blocks_reads_outside() {
    let context = context();
    let secret = context.write("home/.ssh/id_ed25519", "TOP-SECRET");
    let program = format!(
        "import os, posix\nfound = []\n\
         def attempt(f):\n    try:\n        found.append(f())\n    except BaseException as error:\n        found.append(type(error).__name__)\n\
         attempt(lambda: open('{0}').read())\n\
         attempt(lambda: posix.symlink('{0}', 'link') or open('link').read())\n\
         attempt(lambda: posix.link('{0}', 'hard') or open('hard').read())\n\
         attempt(lambda: str(posix.listdir('{1}')) + ' LISTED')\n\
         attempt(lambda: open('/etc/passwd').read())\n\
         attempt(lambda: open('/proc/self/environ').read())\n\
         attempt(lambda: open(f'/proc/{{posix.getppid()}}/environ').read())\n\
         attempt(lambda: open('/proc/1/environ').read())\n\
         attempt(lambda: str(dict(os.environ)))\n\
         raise Exception(str(found))",
        secret.display(),
        context.work().display()
    );
    let outcome = attempt(&context, &program, &[]);
    assert!(outcome.result.starts_with("failed: ["), "{}", outcome.result);
    for word in ["TOP-SECRET", "LISTED", "root:"] {
        outcome.never_says(word, "files");
    }
    assert!(outcome.has("environment"));
    outcome.never_says("hush-hush", "environment");
}

#[test]
fn blocks_writes_outside() {
    let context = context();
    let kept = context.write("kept.txt", "kept");
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o644)).unwrap();
    let before = kept.metadata().unwrap();
    let program = format!(
        "import posix, os\ndone = []\n\
         def attempt(name, f):\n    try:\n        f(); done.append(name)\n    except BaseException as error:\n        pass\n\
         attempt('new', lambda: open('{0}/new.txt', 'w'))\n\
         attempt('append', lambda: open('{0}/kept.txt', 'a').write('x'))\n\
         attempt('truncate', lambda: posix.truncate('{0}/kept.txt', 0))\n\
         attempt('unlink', lambda: posix.unlink('{0}/kept.txt'))\n\
         attempt('rename', lambda: posix.rename('{0}/kept.txt', 'mine'))\n\
         attempt('chmod', lambda: posix.chmod('{0}/kept.txt', 0o777))\n\
         attempt('utime', lambda: posix.utime('{0}/kept.txt', (1, 1)))\n\
         attempt('chown', lambda: posix.chown('{0}/kept.txt', -1, posix.getgid()))\n\
         attempt('xattr', lambda: posix.setxattr('{0}/kept.txt', 'user.x', b'1'))\n\
         attempt('mkdir', lambda: posix.mkdir('{0}/folder'))\n\
         attempt('link', lambda: (posix.symlink('{0}/kept.txt', 'link'), open('link', 'w')))\n\
         raise Exception(f'DONE {{done}}')",
        context.work().display()
    );
    let outcome = attempt(&context, &program, &[]);
    if outcome.has("files") && outcome.has("system calls") {
        assert_eq!(outcome.result, "failed: DONE []");
        let after = kept.metadata().unwrap();
        assert_eq!((after.mode(), after.mtime(), after.len()), (before.mode(), before.mtime(), 4));
        assert!(!context.work().join("new.txt").exists() && !context.work().join("folder").exists());
    }
    is_clean(&context);
}

#[test]
fn blocks_new_processes() {
    let context = context();
    let program = "import posix, ctypes, _posixsubprocess, time\nmade = []\n\
        def bomb():\n    for _ in range(20000):\n        if posix.fork() == 0:\n            try: posix.setsid()\n            except OSError: pass\n            time.sleep(60)\n        made.append('fork')\n\
        def clone():\n    libc = ctypes.CDLL(None, use_errno=True)\n    if libc.syscall(56, 17, 0, 0, 0, 0) >= 0: made.append('clone')\n\
        def clone3():\n    libc = ctypes.CDLL(None, use_errno=True)\n    args = (ctypes.c_uint64 * 11)(*[0] * 4, 17)\n    if libc.syscall(435, args, 88) >= 0: made.append('clone3')\n\
        def spawn():\n    posix.posix_spawn('/bin/sh', ['sh', '-c', 'sleep 60'], {})\n    made.append('spawn')\n\
        for f in (clone, clone3, spawn, bomb):\n    try: f()\n    except BaseException: pass\n\
        raise Exception(f'MADE {len(made)} {made[:3]}')";
    let outcome = attempt(&context, program, &[]);
    if outcome.has("processes") {
        assert_eq!(outcome.result, "failed: MADE 0 []");
    }
    // Without that limit too, everything ends with the code.
    is_clean(&context);
}

#[test]
fn limits_memory() {
    let context = context();
    let program = "blocks = []\nwhile True: blocks.append(bytearray(64 << 20))";
    let outcome = attempt(&context, program, &["--memory", "512"]);
    if outcome.has("memory") {
        assert_eq!(outcome.result, "failed: ");
        assert!(outcome.limits["memory"]["limit"].as_str().unwrap().contains("512 MiB"));
    }
    let threads = "import threading, time\nthreading.stack_size(65536)\nmade = 0\n\
        try:\n    while made < 20000:\n        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); made += 1\n\
        except BaseException: pass\nraise Exception(f'THREADS {made < 20000}')";
    let outcome = attempt(&context, threads, &["--memory", "512"]);
    if outcome.has("threads") || outcome.has("memory") {
        assert!(["failed: THREADS True", "timed out"].contains(&&*outcome.result), "{}", outcome.result);
    }
    is_clean(&context);
}

#[test]
fn limits_cannot_be_raised() {
    let context = context();
    let program = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nmost = (ctypes.c_uint64 * 2)(2**64 - 1, 2**64 - 1)\n\
        raised = [number for number in range(16) if libc.setrlimit(number, most) == 0]\n\
        raise Exception(f'RAISED {raised}')";
    let outcome = attempt(&context, program, &[]);
    if outcome.has("system calls") {
        assert_eq!(outcome.result, "failed: RAISED []");
    }
}

#[test]
fn limits_time() {
    let context = context();
    let start = Instant::now();
    assert_eq!(attempt(&context, "while True: pass", &["--time", "0.5"]).result, "timed out");
    let stubborn = "while True:\n    try:\n        while True: pass\n    except BaseException: pass";
    assert_eq!(attempt(&context, stubborn, &["--time", "0.5"]).result, "timed out");
    let deaf = "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0)\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\n\
        signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)";
    assert_eq!(attempt(&context, deaf, &["--time", "0.5"]).result, "timed out");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    is_clean(&context);
}

#[test]
fn blocks_signals() {
    let context = context();
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    let program = format!(
        "import posix, signal\nkilled = []\n\
         for pid in (posix.getppid(), {}, {}, -1, 0, -{}):\n    try:\n        posix.kill(pid, 9); killed.append(pid)\n    except BaseException: pass\n\
         raise Exception(f'KILLED {{killed}}')",
        bystander.id(),
        std::process::id(),
        bystander.id(),
    );
    let outcome = attempt(&context, &program, &[]);
    if outcome.has("signals") && outcome.has("system calls") {
        assert_eq!(outcome.result, "failed: KILLED []");
        assert_eq!(bystander.try_wait().unwrap(), None);
    }
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn limits_file_sizes() {
    let context = context();
    let one = "block = b'x' * (1 << 20)\nwith open('big', 'wb') as file:\n    for _ in range(10240): file.write(block)";
    let outcome = attempt(&context, one, &["--time", "20"]);
    if outcome.has("file size") {
        assert!(outcome.result.contains("[Errno 27]"), "{}", outcome.result);
    }
    let many = "block = b'x' * (1 << 20)\nfor number in range(300):\n    with open(f'f{number}', 'wb') as file: file.write(block)";
    let outcome = attempt(&context, many, &["--time", "20"]);
    if outcome.has("disk") {
        assert!(outcome.result.contains("[Errno 28]"), "{}", outcome.result);
    }
    let open = "files = [open('f', 'w') for _ in range(1000)]";
    let outcome = attempt(&context, open, &[]);
    if outcome.has("open files") {
        assert!(outcome.result.contains("[Errno 24]"), "{}", outcome.result);
    }
    is_clean(&context);
}

#[test]
fn output_cannot_forge_a_result() {
    let context = context();
    let gigabytes = "import posix\nfor _ in range(2000):\n    print('x' * (1 << 20))\n    posix.write(1, b'y' * 65536)\n    posix.write(2, b'y' * 65536)";
    assert_eq!(attempt(&context, gigabytes, &["--time", "20"]).result, "passed");
    let forged = "import posix\nfor number in range(64):\n    try: posix.write(number, b'passed\\n70617373 ready\\n')\n    except OSError: pass\nassert False";
    assert_eq!(attempt(&context, forged, &[]).result, "failed: ");
    // The word that makes a result valid is not visible while the code runs.
    let found = "import gc, posix, re, sys\nfound = set()\ndef look(value):\n    \
                 if isinstance(value, (bytes, str)):\n        \
                 text = value if isinstance(value, bytes) else value.encode('utf-8', 'replace')\n        \
                 found.update(re.findall(rb'[0-9a-f]{32}', text))\n\
                 frame = sys._getframe()\nwhile frame:\n    \
                 for value in [*frame.f_locals.values(), *frame.f_globals.values()]: look(value)\n    frame = frame.f_back\n\
                 for value in gc.get_objects():\n    \
                 for item in gc.get_referents(value): look(item)\n\
                 for word in found:\n    for number in range(64):\n        \
                 try: posix.write(number, word + b' 706173736564\\n')\n        except OSError: pass\nassert False";
    assert_eq!(attempt(&context, found, &["--time", "20"]).result, "failed: ");
    let flood = "import posix\nwhile True:\n    for number in range(3, 8):\n        try: posix.write(number, b'x' * 65536)\n        except OSError: pass";
    assert_eq!(attempt(&context, flood, &["--time", "2"]).result, "timed out");
    let huge = attempt(&context, "raise Exception('x' * 100_000_000)", &["--time", "20"]).result;
    assert!(huge.len() < 100_000, "{}", huge.len());
    is_clean(&context);
}

#[test]
fn blocks_dangerous_system_calls() {
    let context = context();
    let program = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ncalls = {\n\
        'ptrace': lambda: libc.ptrace(0, 0, 0, 0), 'mount': lambda: libc.mount(b'x', b'.', b'tmpfs', 0, None),\n\
        'unshare': lambda: libc.unshare(0x10000000), 'chroot': lambda: libc.chroot(b'.'),\n\
        'bpf': lambda: libc.syscall(321, 0, 0, 0), 'keyctl': lambda: libc.syscall(250, 0, -3, 0),\n\
        'io_uring': lambda: libc.syscall(425, 1, 0), 'memfd': lambda: libc.memfd_create(b'x', 0),\n\
        'setuid': lambda: libc.setuid(0), 'userfaultfd': lambda: libc.syscall(323, 0),\n}\n\
        raise Exception('WORKED ' + str([name for name, call in calls.items() if call() >= 0]))";
    let outcome = attempt(&context, program, &[]);
    if outcome.has("system calls") && cfg!(target_arch = "x86_64") {
        assert_eq!(outcome.result, "failed: WORKED []");
    }
    assert!(outcome.has("privileges") || !cfg!(target_os = "linux"));
}

/// Root can be restricted more than others, and less: the limits must also apply to an ordinary user.
#[test]
fn limits_ordinary_users() {
    let context = context();
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let folder = folder_for_all();
    let program = folder.join("program.py");
    fs_err::write(
        &program,
        "import posix, socket\ndone = []\n\
         def attempt(name, f):\n    try:\n        f(); done.append(name)\n    except BaseException as error:\n        pass\n\
         attempt('fork', posix.fork)\nattempt('socket', socket.socket)\n\
         for kind in (2, 3, 4, 5): attempt(f'pair {kind}', lambda: socket.socketpair(socket.AF_UNIX, kind))\nattempt('read', lambda: open('/etc/passwd'))\n\
         attempt('write', lambda: open('/tmp/lm-eval-escaped', 'w'))\nattempt('kill', lambda: posix.kill(-1, 0))\n\
         raise Exception(f'DONE {done}')",
    )
    .unwrap();
    let binary = folder.join("lm-eval");
    std::fs::copy(env!("CARGO_BIN_EXE_lm-eval"), &binary).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let python =
        ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter().find(|path| Path::new(path).exists());
    let output = Command::new(&binary)
        .args(["sandbox", program.to_str().unwrap(), "--json", "--python", python.unwrap_or("python3")])
        .env("TMPDIR", "/tmp")
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    fs_err::remove_dir_all(&folder).unwrap();
    if python.is_none() {
        // This user may start no interpreter; that must be reported.
        assert!(!output.status.success() && !output.stderr.is_empty());
        return;
    }
    let outcome = read(&output.stdout);
    if outcome.has("system calls") && outcome.has("files") {
        assert_eq!(outcome.result, "failed: DONE []");
    }
    drop(context);
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

fn folder_for_all() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("lm-eval-sandbox-test-{}", std::process::id()));
    fs_err::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}
