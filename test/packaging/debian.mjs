/**
 * Inside a root of its own, as root: installs the Debian package, uses it as its unit would start it, upgrades it while requests run, removes
 * and purges it. `node debian.mjs PACKAGE NEWER_PACKAGE`, by the Node of the package. deb.long.test.ts makes the root.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver, until, use } from './smoke.mjs';

const newer = process.argv[2];
const CONFIG = '/etc/parhelion/parhelion.yaml';
const UNIT = '/usr/lib/systemd/system/parhelion.service';
const API = 'http://127.0.0.1:8787';
const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', DEBIAN_FRONTEND: 'readline' };

function run(program, ...args) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: '/root',
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return { status, out: stdout, all: stdout + stderr };
}

function succeed(program, ...args) {
  const { status, out, all } = run(program, ...args);
  assert.equal(status, 0, `${program} ${args.join(' ')}\n${all}`);
  return out;
}

const ask = (...args) => JSON.parse(succeed('parhelion', ...args, '--json', '--config', CONFIG));

function looksInstalled() {
  const { uid, gid } = statSync('/var/lib/parhelion');
  assert.equal(succeed('id', '--name', '--user', String(uid)).trim(), 'parhelion');
  assert.equal(statSync('/var/lib/parhelion').mode & 0o777, 0o700);
  const folder = statSync('/etc/parhelion');
  assert.deepEqual([folder.uid, folder.gid, folder.mode & 0o777], [0, gid, 0o750]);
  assert.ok(existsSync('/etc/systemd/system/multi-user.target.wants/parhelion.service'), 'the service is not enabled');
  assert.ok(!existsSync('/etc/systemd/system/sockets.target.wants/parhelion.socket'), 'the sockets are enabled');
  assert.equal(succeed('dpkg', '--verify', 'parhelion').trim(), '');
  const { status, all } = run('parhelion', 'check-config', '--config', CONFIG);
  assert.equal(status, 78, 'an upstream has to be set');
  assert.match(all, /upstream\.urls/);
}

/** A Solana node for the service: the local chain of another process of the program. */
async function startNode() {
  // Not with the configuration of the service.
  const ports = {
    PARHELION_CONFIG: '',
    PARHELION_HTTP__PORT: '0',
    PARHELION_ADMIN__PORT: '0',
    PARHELION_UPSTREAM__LOCAL__PORT: '8899',
  };
  const child = spawn('parhelion', ['serve', '--data-dir', '/tmp/node'], {
    env: { ...env, ...ports, PARHELION_UPSTREAM__LOCAL__DEMO: 'false' },
    stdio: 'ignore',
  });
  const ended = once(child, 'exit');
  const call = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"jsonrpc":"2.0","id":1,"method":"getHealth"}',
  };
  const isHealthy = () =>
    fetch('http://127.0.0.1:8899', call).then(
      (response) => response.ok,
      () => false,
    );
  await until('the node', isHealthy, (answer) => answer);
  return {
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** What systemd does with the unit and the sockets: opens them once and gives them to each process it starts. */
const HOLDER = `
import os, signal, socket, sys
held = []
for port in (8787, 8788):
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', port)); s.listen(4096); held.append(s)
def start():
    pid = os.fork()
    if pid: return pid
    copies = [os.dup2(s.fileno(), 100 + i) for i, s in enumerate(held)]
    for i, fd in enumerate(copies): os.dup2(fd, 3 + i, inheritable=True)
    os.environ.update(LISTEN_FDS=str(len(held)), LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES='api:websocket')
    os.closerange(3 + len(held), 200)
    os.execvp(sys.argv[1], sys.argv[1:])
def stop(pid):
    os.kill(pid, signal.SIGTERM)
    print('ended', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
pid = start()
for line in sys.stdin:
    stop(pid); pid = start()
stop(pid)
`;

/** Starts what the unit names, as its user, in its folder, with its environment. */
function startService() {
  const text = readFileSync(UNIT, 'utf8');
  const values = (key) => [...text.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value]) => value);
  const [user] = values('User');
  const as = ['setpriv', `--reuid=${user}`, `--regid=${values('Group')[0]}`, '--clear-groups', '--'];
  const own = { PATH: env.PATH, ...Object.fromEntries(values('Environment').map((pair) => pair.split(/=(.*)/s))) };
  const options = { cwd: values('WorkingDirectory')[0], env: own };
  const [before] = values('ExecStartPre');
  const checked = spawnSync(as[0], [...as.slice(1), ...before.split(' ')], { ...options, encoding: 'utf8' });
  assert.equal(checked.status, 0, checked.stderr);
  const child = spawn('python3', ['-c', HOLDER, ...as, ...values('ExecStart')[0].split(' ')], {
    ...options,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const ended = once(child, 'exit');
  return {
    count: (message) => lines.filter((line) => line.includes(`"msg":"${message}"`)).length,
    ends: () => lines.filter((line) => line.startsWith('ended ')),
    lines,
    restart: () => child.stdin.write('restart\n'),
    async stop() {
      child.stdin.end();
      await ended;
    },
  };
}

/** Asks over new connections until it ends; the statuses, or the codes of what failed. */
function startClients() {
  const seen = new Map();
  let isDone = false;
  const clients = Array.from({ length: 4 }, async () => {
    while (!isDone) {
      const status = await fetch(`${API}/ping`, { headers: { connection: 'close' } })
        .then((response) => response.text().then(() => response.status))
        .catch((error) => error.cause?.code ?? error.message);
      seen.set(status, (seen.get(status) ?? 0) + 1);
      await sleep(5);
    }
  });
  return {
    seen,
    async end() {
      isDone = true;
      await Promise.all(clients);
    },
  };
}

looksInstalled();
const given = readFileSync(CONFIG, 'utf8');
writeFileSync(
  CONFIG,
  given.replace('urls: []', 'urls: ["http://127.0.0.1:8899"]') +
    'webhooks: { allowCidrs: [127.0.0.1/32] }\nlog: { format: json }\n',
);
const node = await startNode();
const service = startService();
const receiver = await startReceiver();
try {
  await until(
    'the daemon',
    () => service.count('ready'),
    (count) => count >= 1,
  );
  await until(
    'an answer',
    () => fetch(`${API}/ping`).then((response) => response.text()),
    (text) => text === 'ok',
  );
  const status = ask('status');
  assert.match(JSON.stringify(status), /127\.0\.0\.1:8787/);
  const project = ask('projects', 'create', '--name', 'acme');
  const { key } = ask('keys', 'create', '--project', project.id);
  // Texts name the program as a shell finds it.
  const spare = succeed('parhelion', 'keys', 'create', '--project', project.id, '--config', CONFIG);
  assert.match(spare, /shown only once\. parhelion keys list shows its id/);
  await use({ api: API, admin: 'http://127.0.0.1:8790' }, key, receiver);
  assert.equal(statSync('/var/lib/parhelion/run.json').uid, statSync('/var/lib/parhelion').uid);
  // A new plugin builds against the types of this package.
  succeed('parhelion', 'plugin', 'new', 'slot-notes');
  const { devDependencies } = JSON.parse(readFileSync('/root/slot-notes/package.json', 'utf8'));
  const place = devDependencies.parhelion.replace('file:', '');
  for (const entry of Object.values(JSON.parse(readFileSync(`${place}/package.json`, 'utf8')).exports))
    for (const path of Object.values(typeof entry === 'string' ? { entry } : entry))
      assert.ok(existsSync(`${place}/${path}`), path);
  // `sudo -u parhelion` stays in the folder of root, which that user may not enter.
  const as = ['setpriv', '--reuid=parhelion', '--regid=parhelion', '--clear-groups', 'parhelion', 'status', '--json'];
  mkdirSync('/tmp/closed', { mode: 0o700 });
  const there = spawnSync(as[0], as.slice(1), { cwd: '/tmp/closed', env, encoding: 'utf8' });
  assert.equal(there.status, 0, there.stderr);
  assert.match(there.stdout, /127\.0\.0\.1:8787/);
  console.log('installed: status, key, delivery and wallet are fine');

  const version = succeed('parhelion', '--version');
  const clients = startClients();
  await sleep(500);
  const upgraded = succeed('dpkg', '--install', newer);
  assert.doesNotMatch(upgraded, /set upstream\.urls/);
  assert.notEqual(succeed('parhelion', '--version'), version);
  const [starts, before] = [service.count('listening'), clients.seen.get(200) ?? 0];
  service.restart();
  await until(
    'the new version',
    () => service.count('listening'),
    (count) => count > starts,
  );
  const after = clients.seen.get(200) ?? 0;
  await until(
    'answers of the new version',
    () => clients.seen.get(200) ?? 0,
    (count) => count > after + 20,
  );
  await clients.end();
  assert.ok(before > 0);
  const failed = [...clients.seen].filter(([status]) => status !== 200);
  assert.deepEqual(failed, [], 'a request was lost');
  assert.ok(readFileSync(CONFIG, 'utf8').includes(':8899'), 'the upgrade has replaced the configuration');
  console.log(`upgraded: ${clients.seen.get(200)} requests, none was lost`);
} catch (error) {
  console.error(service.lines.slice(-80).join('\n'));
  throw error;
} finally {
  receiver.close();
  await service.stop();
  await node.stop();
}
assert.deepEqual(service.ends(), ['ended 0', 'ended 0']);
