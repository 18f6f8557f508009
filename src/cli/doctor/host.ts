import { spawn } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync, statfsSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, resolve } from 'node:path';
import { type CoreConfig, TLS_SECTIONS, type TlsSection } from '../../config/core.ts';
import type { LoadedConfig } from '../../config/load.ts';
import { readTlsFiles } from '../../http/tls-files.ts';
import { codeOf } from '../../lib/coded-error.ts';
import type { RunFile } from '../running-daemon.ts';
import { type Finding, fail, failedBy, ok, warn } from './finding.ts';

/** Releases that the tests run on. */
const TESTED_MAJORS = [20, 24];
const MIN_NODE = [20, 19] as const;
/** Descriptors for files, database and upstream connections, in addition to client sockets. */
const OWN_DESCRIPTORS = 512;
const OTHERS_MAY_READ = 0o004;
const OTHERS_MAY_PASS = 0o001;

export function nodeFinding(version: string): Finding {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number);
  if (major < MIN_NODE[0] || (major === MIN_NODE[0] && minor < MIN_NODE[1]))
    return fail('node', `${version} is too old`, `install Node.js ${MIN_NODE.join('.')} or later`, 78);
  if (TESTED_MAJORS.includes(major)) return ok('node', version);
  return warn('node', `${version} is not tested`, `use a release of ${TESTED_MAJORS.join(' or ')}`);
}

/** The file may contain addresses with keys, and a database password. */
export function configFileFinding({ file }: LoadedConfig): Finding {
  if (file === null) return ok('configuration', 'no file: defaults and environment');
  const mode = statSync(file).mode & 0o777;
  if ((mode & OTHERS_MAY_READ) === 0 || !othersReach(dirname(resolve(file))))
    return ok('configuration', `${file} is fine`);
  return warn(
    'configuration',
    `${file} is valid, but every user may read it (mode ${mode.toString(8)})`,
    'chmod o-r it',
  );
}

/** Whether every user may pass all folders down to this one. */
function othersReach(folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    if ((statSync(at).mode & OTHERS_MAY_PASS) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

/** Limit of the running daemon if there is one, else of this shell. */
export function openFilesFinding(maxConnections: number, pid: number | null): Finding {
  const owner = pid === null ? 'this shell' : 'the daemon';
  let text: string;
  try {
    text = readFileSync(`/proc/${pid ?? 'self'}/limits`, 'utf8');
  } catch {
    return ok('open files', `the limit of ${owner} cannot be read here`);
  }
  return openFilesIn(text, maxConnections, owner);
}

/** Reads the text of /proc/<pid>/limits. */
export function openFilesIn(text: string, maxConnections: number, owner: string): Finding {
  const soft = /^Max open files\s+(\S+)/m.exec(text)?.[1] ?? 'unknown';
  const needed = maxConnections + OWN_DESCRIPTORS;
  const detail = `the limit of ${owner} is ${soft}`;
  if (!/^\d+$/.test(soft) || Number(soft) >= needed) return ok('open files', detail);
  return warn(
    'open files',
    `${detail}, http.maxConnections ${maxConnections} needs about ${needed}`,
    'raise it (LimitNOFILE= in the unit, ulimit -n in a shell) or lower http.maxConnections',
  );
}

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;
const ADVICE = 'renew it, then: systemctl reload parhelion (or kill -HUP); no restart is needed';

/** Whether the certificates can be served, and for how long; no finding for a section without one. */
export function certificateFindings(core: Pick<CoreConfig, TlsSection>, nowMs: number): Finding[] {
  return TLS_SECTIONS.flatMap((section) => {
    const check = section === 'http' ? 'certificate' : `${section} certificate`;
    try {
      const files = readTlsFiles(core, section);
      return files === null ? [] : [validity(check, files, nowMs)];
    } catch (error) {
      const advice = `check the files of ${section}.tls, and that the user of the daemon may read them`;
      return [failedBy(check, error, advice)];
    }
  });
}

function validity(
  check: string,
  {
    names,
    validFromMs,
    validToMs,
  }: { readonly names: string; readonly validFromMs: number; readonly validToMs: number },
  nowMs: number,
): Finding {
  const until = new Date(validToMs).toISOString().slice(0, 10);
  if (validToMs <= nowMs) return fail(check, `${names}: expired on ${until}`, ADVICE);
  if (validFromMs > nowMs)
    return fail(
      check,
      `${names}: valid only from ${new Date(validFromMs).toISOString()}`,
      'check the clock of this machine',
    );
  const days = Math.floor((validToMs - nowMs) / DAY_MS);
  if (days < SOON_DAYS) return warn(check, `${names}: expires in ${days} days, on ${until}`, ADVICE);
  return ok(check, `${names}: valid until ${until}`);
}

const FOLDER_CHECK = 'data folder';
const MIB = 1_048_576;
const TOO_LITTLE_BYTES = 128 * MIB;
const LITTLE_BYTES = 2_048 * MIB;

interface FolderFacts {
  readonly path: string;
  /** Id of the current user; undefined if the platform has none. */
  readonly uid: number | undefined;
}

/** Checks that the folder exists, belongs to the current user, is writable and has free space. Changes nothing. */
export function dataFolderFindings({ path, uid }: FolderFacts): Finding[] {
  if (!existsSync(path)) {
    const parent = nearestParent(path);
    const detail = `${path} does not exist yet`;
    if (!isWritable(parent)) return [fail(FOLDER_CHECK, `${detail}, and ${parent} cannot be written`, advice(path))];
    return [ok(FOLDER_CHECK, `${detail}; the first start creates it`), roomFinding(parent)];
  }
  const { uid: owner } = statSync(path);
  if (!statSync(path).isDirectory())
    return [fail(FOLDER_CHECK, `${path} is not a folder`, 'move it, or set dataDir', 78)];
  // Root may do everything there, and its commands leave the owner as it is.
  const isForeign = uid !== undefined && uid !== 0 && uid !== owner;
  const findings = isWritable(path)
    ? [isForeign ? foreign(path, owner) : ok(FOLDER_CHECK, `${path} can be written`)]
    : [
        fail(
          FOLDER_CHECK,
          `${path} cannot be written by user ${uid ?? '?'}; it belongs to user ${owner}`,
          advice(path),
        ),
      ];
  return [...findings, roomFinding(path)];
}

const foreign = (path: string, owner: number) =>
  warn(
    FOLDER_CHECK,
    `${path} belongs to user ${owner}, not to you`,
    'run commands as that user, so that it can read what they write',
  );

const advice = (path: string) => `run as its owner, or: chown -R USER ${path}; in a unit: StateDirectory=`;

function roomFinding(path: string): Finding {
  const { bavail, bsize } = statfsSync(path);
  return roomIn(bavail * bsize, path);
}

export function roomIn(freeBytes: number, path: string): Finding {
  const detail = `${Math.floor(freeBytes / MIB).toLocaleString('en')} MiB free`;
  const what = 'free some space, or set dataDir to another disk';
  if (freeBytes < TOO_LITTLE_BYTES) return fail('disk', `${detail} below ${path}`, what);
  return freeBytes < LITTLE_BYTES ? warn('disk', `${detail} below ${path}`, what) : ok('disk', detail);
}

function nearestParent(path: string): string {
  let parent = dirname(path);
  while (!existsSync(parent) && dirname(parent) !== parent) parent = dirname(parent);
  return parent;
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const UNIT_CHECK = 'service';
const UNIT = 'parhelion.service';
const TIMEOUT_MS = 3_000;
const PROPERTIES = 'LoadState,ActiveState,UnitFileState,Result,NRestarts,NeedDaemonReload';

/** The state of the unit in the service manager; a machine without systemd is fine. */
export async function serviceFindings(): Promise<Finding[]> {
  if (!existsSync('/run/systemd/system')) return [ok(UNIT_CHECK, 'systemd does not run here')];
  const text = await askManager();
  return text === null ? [ok(UNIT_CHECK, 'systemctl does not answer')] : unitFindings(text);
}

/** Reads the answer of `systemctl show`. */
export function unitFindings(text: string): Finding[] {
  const lines = text.split('\n').map((line) => line.split('='));
  const unit = new Map(lines.map(([name = '', ...value]) => [name, value.join('=')]));
  if (unit.get('LoadState') !== 'loaded') return [ok(UNIT_CHECK, `${UNIT} is not installed`)];
  const state = unit.get('ActiveState') ?? 'unknown';
  const findings: Finding[] = [];
  if (state === 'failed') {
    const detail = `${UNIT} has failed (${unit.get('Result') ?? 'unknown'})`;
    findings.push(fail(UNIT_CHECK, detail, `journalctl -u ${UNIT} -e; then: systemctl reset-failed ${UNIT}`));
  }
  if (unit.get('NeedDaemonReload') === 'yes')
    findings.push(warn(UNIT_CHECK, `${UNIT} has changed on disk`, 'systemctl daemon-reload, then restart it'));
  if (unit.get('UnitFileState') === 'disabled')
    findings.push(warn(UNIT_CHECK, `${UNIT} does not start with the machine`, `systemctl enable ${UNIT}`));
  const restarts = Number(unit.get('NRestarts') ?? 0);
  if (restarts > 0)
    findings.push(warn(UNIT_CHECK, `${UNIT} was restarted ${restarts} times`, `journalctl -u ${UNIT} -e says why`));
  return findings.length > 0 ? findings : [ok(UNIT_CHECK, `${UNIT} is ${state}`)];
}

function askManager(): Promise<string | null> {
  return new Promise((resolve) => {
    const child = spawn('systemctl', ['show', UNIT, `--property=${PROPERTIES}`], {
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: TIMEOUT_MS,
    });
    let text = '';
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    child.once('error', () => resolve(null));
    child.once('close', (code) => resolve(code === 0 ? text : null));
  });
}

interface PortCheck {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  /** The daemon also runs without it. */
  readonly isOptional: boolean;
  /** Addresses at which running processes have it. */
  readonly held: readonly string[];
}

/** Checks that each listen address is free, or held by the running daemon. Binds it briefly. */
export async function portFindings({ http, admin }: CoreConfig, running: readonly RunFile[]): Promise<Finding[]> {
  const { websocketPort: own } = http;
  const twinPort = own ?? (http.port === 0 || http.port === 65_535 ? 0 : http.port + 1);
  const held = (listener: 'api' | 'websocket' | 'admin') =>
    running.flatMap((one) => (one[listener] === null ? [] : [one[listener]]));
  const wanted: PortCheck[] = [
    { name: 'http.port', host: http.host, port: http.port, isOptional: false, held: held('api') },
    { name: 'http.websocketPort', host: http.host, port: twinPort, isOptional: own === null, held: held('websocket') },
    { name: 'admin.port', host: admin.host, port: admin.port, isOptional: false, held: held('admin') },
  ];
  return await Promise.all(wanted.map(look));
}

async function look({ name, host, port, isOptional, held }: PortCheck): Promise<Finding> {
  const mine = held.find((address) => port === 0 || portOf(address) === port);
  if (mine !== undefined) return ok('port', `${name}: the daemon has ${mine}`);
  if (port === 0) return ok('port', `${name}: any free port`);
  const where = `${host}:${port}`;
  const trouble = await tryToBind(host, port);
  if (trouble === null) return ok('port', `${name}: ${where} is free`);
  const detail = `${name}: ${where} ${trouble === 'EADDRINUSE' ? 'is held by another process' : `cannot be bound (${trouble})`}`;
  return isOptional
    ? warn('port', detail, `${adviceFor(trouble, name, port)}; without it only the API port serves websockets`)
    : fail('port', detail, adviceFor(trouble, name, port));
}

function adviceFor(trouble: string, name: string, port: number): string {
  if (trouble === 'EADDRINUSE')
    return `ss -ltnp 'sport = :${port}' shows who (systemd, if its socket unit is active): stop it, or set ${name}`;
  if (trouble === 'EACCES') return `ports below 1024 need a privilege: set ${name} higher, with a proxy in front`;
  return 'set the host to an address of this machine';
}

function tryToBind(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error) => resolve(codeOf(error) ?? 'error'));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

const portOf = (address: string) => Number(new URL(address).port);
