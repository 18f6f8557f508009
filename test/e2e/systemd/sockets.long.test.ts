import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startDaemon } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import { eventually, mainArguments, makeConfig, missingProgram, root, startReceiver, startService } from './harness.ts';

const activate = 'systemd-socket-activate';
const skip = missingProgram(activate, 'python3', 'systemd-notify') ?? false;

/**
 * What systemd does for a service with sockets: opens them once, and hands the same ones to each process it starts. A line on standard
 * input restarts the service; its end stops it.
 */
const HOLDER = `
import os, signal, socket, sys
names, ports, argv = sys.argv[1], [int(p) for p in sys.argv[2].split(':')], sys.argv[3:]
held = []
for port in ports:
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', port)); s.listen(4096); held.append(s)
def start():
    pid = os.fork()
    if pid: print('started', pid, flush=True); return pid
    copies = [os.dup2(s.fileno(), 100 + i) for i, s in enumerate(held)]
    for i, fd in enumerate(copies): os.dup2(fd, 3 + i, inheritable=True)
    os.environ.update(LISTEN_FDS=str(len(held)), LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES=names)
    os.closerange(3 + len(held), 200)
    os.execv(argv[0], argv)
def stop(pid):
    os.kill(pid, signal.SIGTERM)
    print('ended', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
pid = start()
for line in sys.stdin:
    stop(pid); pid = start()
stop(pid)
`;

/** The status of one request on a connection of its own. */
function ask(port: number, path = '/docs'): Promise<number> {
  return new Promise((resolve, reject) => {
    const agent = new Agent({ keepAlive: false });
    const request = get({ host: '127.0.0.1', port, path, agent, timeout: 30_000 }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    });
    request.on('error', reject).on('timeout', () => request.destroy(new Error('no answer')));
  });
}

test('the first connection starts the daemon, and is answered', { skip }, async (t) => {
  const config = await makeConfig(t);
  const manager = await startReceiver(t, config.port);
  const args = ['-l', `127.0.0.1:${config.port}`, '-E', 'NOTIFY_SOCKET', '-E', 'NODE_ENV', '-E', 'PATH'];
  // The port in the file is taken by the manager: only the inherited socket can be it.
  const command = [process.execPath, ...mainArguments, 'serve', '--config', config.file];
  const env = { NOTIFY_SOCKET: manager.path, NODE_ENV: 'test' };
  const service = startService(t, activate, [...args, ...command], env);
  await eventually('the manager listens', () => service.output().includes('Listening on'), service.output);
  assert.equal(service.output().includes('"starting"'), false);
  assert.equal(await ask(config.port), 200, service.output());
  await eventually('READY', () => manager.has('READY=1'));
  const listens = `"api":"http://127.0.0.1:${config.port}"`;
  await eventually('the address in the log', () => service.output().includes(listens), service.output);
  service.child.kill('SIGTERM');
  assert.equal(await service.ended, 0);
});

const restarts = async (t: TestContext, processes: number) => {
  const config = await makeConfig(t);
  config.write({ http: { port: config.port, processes } });
  const [websocketPort, adminPort] = [await freePort(), await freePort()];
  const manager = await startReceiver(t);
  const command = [process.execPath, ...mainArguments, 'serve', '--config', config.file];
  const ports = [adminPort, config.port, websocketPort].join(':');
  const holder = spawn('python3', ['-c', HOLDER, 'admin:api:websocket', ports, ...command], {
    cwd: root,
    env: { ...process.env, NODE_ENV: 'test', NOTIFY_SOCKET: manager.path },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  createInterface({ input: holder.stdout }).on('line', (line) => lines.push(line));
  const ended = once(holder, 'exit');
  t.after(() => {
    holder.kill('SIGKILL');
    for (const line of lines.filter((text) => text.startsWith('started '))) killQuietly(Number(line.split(' ')[1]));
  });
  await eventually(
    'READY',
    () => manager.has('READY=1'),
    () => lines.join('\n'),
  );
  assert.equal(await ask(websocketPort), 200);
  assert.equal(await ask(adminPort, '/healthz'), 200);

  let isDone = false;
  t.after(() => {
    isDone = true;
  });
  const statuses = new Map<number | string, number>();
  const clients = Array.from({ length: 4 }, async () => {
    while (!isDone) {
      const status = await ask(config.port).catch((error: Error & { code?: string }) => error.code ?? error.message);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      await sleep(5);
    }
  });
  for (let restart = 1; restart <= 3; restart++) {
    const taken = connect(config.port, '127.0.0.1');
    await once(taken, 'connect');
    // A whole exchange on another connection: the daemon has taken the first one by then.
    assert.equal(await ask(config.port), 200);
    const drains = manager.count('STOPPING=1') + 1;
    holder.stdin.write('restart\n');
    await eventually('it stops', () => manager.count('STOPPING=1') === drains);
    taken.write('GET /docs HTTP/1.1\r\nHost: x\r\n\r\n');
    assert.match(String(await buffer(taken)), /^HTTP\/1\.1 200 .*\r\nconnection: close\r\n/is);
    await eventually(
      'READY again',
      () => manager.count('READY=1') === restart + 1,
      () => lines.join('\n'),
    );
    const answered = statuses.get(200) ?? 0;
    await eventually('answers again', () => (statuses.get(200) ?? 0) > answered);
  }
  isDone = true;
  await Promise.all(clients);
  holder.stdin.end();
  await ended;
  const told = lines.filter((line) => line.startsWith('ended '));
  assert.deepEqual(
    told,
    Array.from({ length: 4 }, () => 'ended 0'),
    lines.join('\n'),
  );
  const failed = [...statuses].filter(([status]) => status !== 200);
  assert.deepEqual(failed, [], 'a request was lost');
};

for (const processes of [1, 2])
  test(
    `a restart refuses nobody: connections wait in the sockets until the next daemon takes them, processes ${processes}`,
    {
      skip,
    },
    (t) => restarts(t, processes),
  );

test('a connection that was taken just before the end is answered, not reset', async (t) => {
  const daemon = await startDaemon({ config: { plugins: ['access', 'proxy', 'sender'] } });
  t.after(() => daemon.stop());
  const client = connect(Number(new URL(daemon.apiUrl).port), '127.0.0.1');
  await once(client, 'connect');
  // A whole exchange on another connection: the daemon has taken the first one by then.
  assert.equal((await fetch(`${daemon.apiUrl}/docs`)).status, 200);
  const stopped = daemon.stop();
  await sleep(50);
  client.write('GET /docs HTTP/1.1\r\nHost: x\r\n\r\n');
  assert.match(String(await buffer(client)), /^HTTP\/1\.1 503 .*\r\nconnection: close\r\n/is);
  await stopped;
});

test('a socket that nobody would serve ends the start with 78', { skip }, async (t) => {
  const config = await makeConfig(t);
  const args = ['-l', `127.0.0.1:${config.port}`, '--fdname=metrics'];
  const command = [process.execPath, ...mainArguments, 'serve', '--config', config.file];
  const service = startService(t, activate, [...args, ...command], {});
  await eventually('the manager listens', () => service.output().includes('Listening on'), service.output);
  await assert.rejects(ask(config.port));
  assert.equal(await service.ended, 78);
  assert.match(
    service.output(),
    /"code":"NOTIFY_SOCKETS_INVALID".*socket 1 is called \\"metrics\\"; the names are api, websocket, admin/,
  );
});

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}
