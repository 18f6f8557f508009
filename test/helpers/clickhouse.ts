/**
 * ClickHouse for the suites of the archive: servers of the distribution (clickhouse-server, clickhouse-client, zookeeperd) on loopback in folders of
 * their own, with ZooKeeper when there are several; and the package chdb.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** Folder with the package chdb. */
export const CHDB_DIR = fileURLToPath(new URL('./chdb/', import.meta.url));

function missing(isThere: boolean, reason: string, required: string): string | null {
  if (isThere) return null;
  if (process.env[required] === '1') throw new Error(reason);
  console.error(`SKIPPED: ${reason}`);
  return reason;
}

/** Why chdb cannot be tested here, or null. With REQUIRE_CHDB=1 a reason is an error. */
export const chdbMissing = () =>
  missing(
    existsSync(join(CHDB_DIR, 'node_modules/chdb')),
    'the package chdb is not installed: npm --prefix test/helpers/chdb ci',
    'REQUIRE_CHDB',
  );

/** Like `chdbMissing`, for servers, and for what several of them need. With REQUIRE_CLICKHOUSE=1 a missing one is an error. */
export const serversMissing = (count = 2) =>
  missing(
    ['/usr/sbin/clickhouse-server', ...(count > 1 ? ['/usr/share/java/zookeeper.jar'] : [])].every((path) =>
      existsSync(path),
    ),
    'no server of ClickHouse: apt-get install clickhouse-server clickhouse-client zookeeperd',
    'REQUIRE_CLICKHOUSE',
  );

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  for (const server of servers) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const ports = servers.map((server) => (server.address() as { readonly port: number }).port);
  for (const server of servers) await new Promise((resolve) => server.close(resolve));
  return ports;
}

export interface ClickHouseServer {
  readonly host: string;
  query(sql: string): Promise<string>;
  /** Ends it as a crash would. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

export interface ClickHouseServers {
  readonly servers: readonly ClickHouseServer[];
  stop(): Promise<void>;
}

const gone = (child: ChildProcess) =>
  new Promise<void>((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve();
    else child.once('exit', () => resolve());
  });

async function until(what: string, check: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (await check().catch(() => false)) return;
    await sleep(200);
  }
  throw new Error(`${what} did not happen`);
}

/** More than one: with ZooKeeper, for replicated tables. */
export async function startClickHouse(count: number): Promise<ClickHouseServers> {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-clickhouse-'));
  const children: ChildProcess[] = [];
  const [zooPort, ...ports] = await freePorts(1 + count * 3);
  if (count > 1) {
    writeFileSync(
      join(dir, 'zoo.cfg'),
      `tickTime=500\ndataDir=${join(dir, 'zoo')}\nclientPort=${zooPort}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n`,
    );
    const jars = execFileSync('sh', ['-c', 'ls /usr/share/java/*.jar | tr "\\n" ":"']).toString().trim();
    const zoo = ['-cp', jars, 'org.apache.zookeeper.server.quorum.QuorumPeerMain', join(dir, 'zoo.cfg')];
    children.push(spawn('java', ['-Xmx256m', ...zoo], { stdio: 'ignore' }));
  }
  const servers = Array.from({ length: count }, (_, number): ClickHouseServer => {
    const [http, tcp, inter] = ports.slice(number * 3);
    const home = join(dir, String(number));
    for (const folder of ['data', 'tmp', 'log']) mkdirSync(join(home, folder), { recursive: true });
    writeFileSync(
      join(home, 'users.xml'),
      '<yandex><profiles><default/></profiles><users><default><password></password><networks><ip>127.0.0.1</ip></networks>' +
        '<profile>default</profile><quota>default</quota></default></users><quotas><default/></quotas></yandex>',
    );
    writeFileSync(
      join(home, 'config.xml'),
      `<yandex><logger><level>warning</level><log>${home}/log/log</log><errorlog>${home}/log/err</errorlog></logger>
       <http_port>${http}</http_port><tcp_port>${tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
       <interserver_http_port>${inter}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
       <path>${home}/data/</path><tmp_path>${home}/tmp/</tmp_path><users_config>${home}/users.xml</users_config>
       <default_profile>default</default_profile><default_database>default</default_database>
       <mark_cache_size>67108864</mark_cache_size>
       <zookeeper><node><host>127.0.0.1</host><port>${zooPort}</port></node><session_timeout_ms>3000</session_timeout_ms></zookeeper>
       <macros><shard>1</shard><replica>${number}</replica></macros></yandex>`,
    );
    const host = `127.0.0.1:${http}`;
    let child: ChildProcess | null = null;
    const query = async (sql: string): Promise<string> => {
      const response = await fetch(`http://${host}/`, { method: 'POST', body: sql });
      const text = await response.text();
      if (!response.ok) throw new Error(text);
      return text;
    };
    return {
      host,
      query,
      async kill() {
        child!.kill('SIGKILL');
        await gone(child!);
      },
      async start() {
        child = spawn('clickhouse-server', [`--config-file=${home}/config.xml`], { stdio: 'ignore' });
        children.push(child);
        await until(`the start of ${host}`, async () => {
          // ZooKeeper may start later than the server.
          const table = count === 1 ? 'system.one' : `system.zookeeper WHERE path = '/'`;
          return Number(await query(`SELECT count() FROM ${table}`)) > 0;
        });
      },
    };
  });
  for (const server of servers) await server.start();
  return {
    servers,
    async stop() {
      for (const child of children) {
        child.kill('SIGKILL');
        await gone(child);
      }
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
