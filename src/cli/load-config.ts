import { accessSync, constants, lstatSync, mkdtempSync, rmdirSync, type Stats, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type CoreConfig, TLS_SECTIONS } from '../config/core.ts';
import type { Override } from '../config/env.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { fillDefaults, hasFormat, mapTexts, resolvePaths } from '../config/node.ts';
import type { ConfigProblem } from '../config/validate.ts';
import { type FoundPlugin, findPlugins, withNeeded } from '../daemon/registry.ts';
import { readTlsFiles } from '../http/tls-files.ts';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import type { CliIo, CommandValues } from './command.ts';
import { builtInDir, packageDirs } from './package-files.ts';

/** Defaults of a start without configuration: the demo delivers webhooks to a receiver on the same machine. */
const PLAIN_START = { webhooks: { allowCidrs: ['127.0.0.1/32'] } };

interface LoadCliOptions {
  /**
   * Further checks. `upstream`: there is one, or a local chain. `serve`: also ports, folders, files and certificates, everything that a
   * start refuses before it opens anything. Commands on the store need neither.
   */
  readonly needs?: 'upstream' | 'serve';
}

/**
 * Configuration of a command line: file, environment, flags. Errors: CONFIG_UNREADABLE; those of `loadConfig` and `findPlugins`, exit 78.
 */
export async function loadCliConfig(
  values: CommandValues,
  io: CliIo,
  { needs }: LoadCliOptions = {},
): Promise<LoadedConfig<FoundPlugin>> {
  const file = findConfigFile(values, io);
  const plain = file === null && io.env['NODE_ENV'] !== 'production';
  const config = await loadConfig(
    {
      file,
      env: io.env,
      cwd: io.cwd,
      flags: flagOverrides(values, io),
      ...(plain ? { base: PLAIN_START } : {}),
      check: (loaded, faulty) => [
        ...(needs === undefined || faulty.has('upstream') ? [] : upstreamProblems(loaded)),
        ...(needs === 'serve' ? serveProblems(loaded, faulty) : []),
      ],
    },
    (entries, baseDir, report) => findPlugins(entries, { builtInDir, baseDir, packageDirs: packageDirs(file) }, report),
  );
  return { ...config, plugins: withNeeded(config.plugins, config.core) };
}

/** Whether a start without flags is that of a service, not one for trying out. Errors: CONFIG_UNREADABLE, exit 78. */
export const hasConfiguration = (io: CliIo): boolean =>
  io.env['NODE_ENV'] === 'production' || findConfigFile({}, io) !== null;

/**
 * Names of the sections with a value that is neither the default of the schema nor that of a start without configuration.
 */
export function changedSections({ schema, values, file, productionEnv }: LoadedConfig, io: CliIo): ReadonlySet<string> {
  const base = file === null && !productionEnv ? PLAIN_START : {};
  const baseDir = file === null ? io.cwd : dirname(resolve(file));
  const initial = resolvePaths(schema, fillDefaults(schema, base), baseDir) as Record<string, unknown>;
  return new Set(Object.keys(values).filter((name) => !isDeepStrictEqual(values[name], initial[name])));
}

const INSTALLED_FILE = '/etc/parhelion/parhelion.yaml';
const OTHERS_MAY_WRITE = 0o002;

/**
 * The configuration file: `--config`, else PARHELION_CONFIG (empty: none), else parhelion.yaml in the working directory, else the
 * installed one. A working directory that this user may not enter, such as the one of root after `sudo -u`, has none for this user: then the
 * installed file is taken, if it exists. Null if no file exists. Errors: CONFIG_UNREADABLE, exit 78.
 */
function findConfigFile(values: CommandValues, io: CliIo): string | null {
  const given = values['config'] ?? io.env['PARHELION_CONFIG'];
  if (typeof given === 'string') return given === '' ? null : resolve(io.cwd, given);
  const near = resolve(io.cwd, 'parhelion.yaml');
  if (!mayEnter(io.cwd) && fileStatus(INSTALLED_FILE) !== null) return INSTALLED_FILE;
  const found = fileStatus(near);
  if (found !== null) refuseForeign(near, [found, lstatSync(near)], statSync(dirname(near)));
  return found !== null ? near : fileStatus(INSTALLED_FILE) === null ? null : INSTALLED_FILE;
}

function mayEnter(folder: string): boolean {
  try {
    accessSync(folder, constants.X_OK);
    return true;
  } catch (error) {
    return codeOf(error) !== 'EACCES';
  }
}

/** Null: there is no such file. A file that this user may not look at is an error: another configuration would be used silently. */
function fileStatus(path: string): Stats | null {
  try {
    return statSync(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return null;
    throw unreadable(`cannot read ${path}: ${messageOf(error)}; run the command as a user who may, or give --config`);
  }
}

/**
 * A configuration names plugins, which are programs: one that another user left in this folder, or a link to a good one, is not used
 * unasked. Plugins are found from the folder, so it must not be one where everybody may put them.
 */
function refuseForeign(path: string, files: readonly Stats[], folder: Stats): void {
  const own = process.getuid?.();
  if (own === undefined) return;
  const isOwn = files.every(({ uid }) => uid === own || uid === 0);
  const isOpen = [...files.filter((file) => !file.isSymbolicLink()), folder].some(
    ({ mode }) => (mode & OTHERS_MAY_WRITE) !== 0,
  );
  if (isOwn && !isOpen) return;
  throw unreadable(
    `${path} belongs to another user, or everybody may write it or its folder: to use it, give --config ${path}`,
  );
}

const unreadable = (message: string) => new CodedError('CONFIG_UNREADABLE', message, { exitCode: EXIT.config });

type Problem = ConfigProblem | string;

function serveProblems(loaded: LoadedConfig, faulty: ReadonlySet<string>): readonly Problem[] {
  const { core } = loaded;
  const hasListeners = !faulty.has('http') && !faulty.has('admin');
  return [
    ...(hasListeners ? [...listenerProblems(core), ...tlsProblems(core)] : []),
    ...(faulty.has('dataDir') ? [] : folderProblems(core.dataDir)),
    ...fileProblems(loaded),
  ];
}

/** Two listeners cannot have the same port. Without `http.websocketPort` the second API listener is optional. */
function listenerProblems({ http, admin }: CoreConfig): readonly Problem[] {
  const listeners = [
    { path: ['http', 'port'], host: http.host, port: http.port },
    { path: ['http', 'websocketPort'], host: http.host, port: http.websocketPort ?? 0 },
    { path: ['admin', 'port'], host: admin.host, port: admin.port },
  ];
  const isAny = (host: string) => host === '0.0.0.0' || host === '::';
  return listeners.flatMap(({ path, host, port }, index) => {
    const other = listeners.find((one, at) => {
      const meets = one.host === host || isAny(one.host) || isAny(host);
      return at < index && port !== 0 && one.port === port && meets;
    });
    return other === undefined
      ? []
      : [{ path, message: `${port} is ${other.path.join('.')} too: choose another port` }];
  });
}

/** The nearest part of the path that exists must be a folder in which this user may make files. */
function folderProblems(dataDir: string): readonly Problem[] {
  for (let path = dataDir; ; path = dirname(path)) {
    const kind = kindOf(path);
    if (kind === 'file') return [{ path: ['dataDir'], message: `"${path}" is not a folder: name one` }];
    if (kind === 'nothing' && dirname(path) !== path) continue;
    const why = kind === 'folder' ? whyUnwritable(path) : null;
    return why === null ? [] : [{ path: ['dataDir'], message: `cannot write to "${path}" (${why}): ${FOLDER_ADVICE}` }];
  }
}

const FOLDER_ADVICE = 'name a folder that belongs to the user of the daemon, or can be created by it';

function whyUnwritable(path: string): string | null {
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    // File systems without blocks are views of the kernel, such as /proc, where root has the right to write and still cannot. A memory
    // file system without a size has none either: only an attempt can tell them apart.
    if (statfsSync(path).blocks === 0) rmdirSync(mkdtempSync(join(path, '.parhelion-')));
    return null;
  } catch (error) {
    const code = codeOf(error);
    // These are faults of the disk, not of the configuration: a later start may succeed.
    return code === 'EROFS' || code === 'ENOSPC' || code === 'EDQUOT' ? null : (code ?? messageOf(error));
  }
}

function kindOf(path: string): 'folder' | 'file' | 'nothing' | 'unknown' {
  try {
    return statSync(path).isDirectory() ? 'folder' : 'file';
  } catch (error) {
    return codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR' ? 'nothing' : 'unknown';
  }
}

/** Files that are read while the daemon runs. */
function fileProblems({ schema, values }: LoadedConfig): readonly Problem[] {
  const problems: Problem[] = [];
  mapTexts(schema, values, (text, node, path) => {
    const why = hasFormat(node, 'file') ? whyUnreadable(text) : null;
    if (why !== null) problems.push({ path, message: `cannot read "${text}" (${why}): name a file that exists` });
    return text;
  });
  return problems;
}

function whyUnreadable(path: string): string | null {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path).isDirectory() ? 'it is a folder' : null;
  } catch (error) {
    const code = codeOf(error);
    // These are faults of the disk, not of the configuration: a later start may succeed.
    return code === 'EROFS' || code === 'ENOSPC' || code === 'EDQUOT' ? null : (code ?? messageOf(error));
  }
}

function tlsProblems(core: CoreConfig): readonly Problem[] {
  return TLS_SECTIONS.flatMap((section) => {
    try {
      readTlsFiles(core, section);
      return [];
    } catch (error) {
      const text = messageOf(error);
      const [named = '', key = ''] = TLS_KEY.exec(text) ?? [];
      return [key === '' ? text : { path: key.split('.'), message: text.slice(named.length) }];
    }
  });
}

/** The key with which the error begins: its line is told. */
const TLS_KEY = /^((?:http|admin)\.tls(?:\.\w+)?):? /;

const PORTS = [
  ['port', '--port', 'http'],
  ['adminPort', '--admin-port', 'admin'],
] as const;

function flagOverrides(values: CommandValues, io: CliIo): Override[] {
  const overrides: Override[] = [];
  const dataDir = values['dataDir'];
  // Relative to the working directory, like the completion of the shell.
  if (typeof dataDir === 'string')
    overrides.push({ path: ['dataDir'], value: resolve(io.cwd, dataDir), origin: '--data-dir' });
  const rewindTo = values['rewindTo'];
  if (typeof rewindTo === 'string') {
    if (!/^\d{1,15}$/.test(rewindTo))
      throw new CodedError('CONFIG_INVALID', '--rewind-to needs a slot', { exitCode: EXIT.usage });
    overrides.push({ path: ['follow', 'rewindTo'], value: Number(rewindTo), origin: '--rewind-to' });
  }
  const level = values['logLevel'];
  if (typeof level === 'string') overrides.push({ path: ['log', 'level'], value: level, origin: '--log-level' });
  for (const [name, flag, section] of PORTS) {
    const port = values[name];
    if (typeof port !== 'string') continue;
    if (!/^\d{1,5}$/.test(port))
      throw new CodedError('CONFIG_INVALID', `${flag} needs a number`, { exitCode: EXIT.usage });
    overrides.push({ path: [section, 'port'], value: Number(port), origin: flag });
  }
  return overrides;
}

/** Errors: CONFIG_INVALID, exit 78. */
export function chooseUpstream({ core, file, productionEnv }: LoadedConfig): UpstreamChoice {
  return checkUpstream({
    urlCount: core.upstream.urls.length,
    mode: core.upstream.local.mode,
    fromFile: file !== null,
    productionEnv,
  });
}

/** Problems of that choice, as sentences. */
function upstreamProblems(config: LoadedConfig): readonly string[] {
  try {
    return chooseUpstream(config) === 'local' ? localPortProblems(config) : [];
  } catch (error) {
    return [messageOf(error)];
  }
}

/** The local chain starts before the daemon listens, so a conflict with its ports would be reported as one with another process. */
function localPortProblems({ core }: LoadedConfig): readonly string[] {
  const { port } = core.upstream.local;
  if (port === 0) return [];
  const { http, admin } = core;
  const listeners = [
    ['http.port', http.port],
    ['http.websocketPort', http.websocketPort ?? (http.port === 0 ? 0 : http.port + 1)],
    ['admin.port', admin.port],
  ] as const;
  return listeners
    .filter(([, wanted]) => wanted === port || wanted === port + 1)
    .map(
      ([name, wanted]) =>
        `${name} ${wanted} is a port of the local chain, which takes upstream.local.port ${port} and, for websockets, the next one (${port + 1})`,
    );
}

export interface UpstreamChoiceInput {
  readonly urlCount: number;
  readonly mode: 'auto' | 'on' | 'off';
  /** A configuration file was given. */
  readonly fromFile: boolean;
  /** `NODE_ENV=production`. */
  readonly productionEnv: boolean;
}

export type UpstreamChoice = 'upstream' | 'local';

const MISSING =
  'no upstream is configured: set upstream.urls (or SOLANA_RPC_URL) to the JSON-RPC address of a Solana node';

/**
 * Decides once, before the first socket opens, whether the daemon uses real upstreams or the local chain. A production
 * start (a configuration file, or NODE_ENV=production) never falls back to the local chain. Errors: CONFIG_INVALID, exit 78.
 */
export function checkUpstream({ urlCount, mode, fromFile, productionEnv }: UpstreamChoiceInput): UpstreamChoice {
  if (mode === 'on' && productionEnv) {
    throw refuse('upstream.local.mode is "on": the local chain is not allowed with NODE_ENV=production');
  }
  if (urlCount > 0) {
    if (mode === 'on') throw refuse('both upstream.urls and upstream.local.mode "on" are configured: choose one');
    return 'upstream';
  }
  if (mode === 'off') throw refuse(MISSING);
  if (productionEnv || (fromFile && mode === 'auto')) throw refuse(MISSING);
  return 'local';
}

function refuse(problem: string): CodedError {
  return new CodedError('CONFIG_INVALID', problem, { exitCode: EXIT.config, facts: { problems: [problem] } });
}
