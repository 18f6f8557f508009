import { resolve } from 'node:path';
import { checkUpstream, type UpstreamChoice } from '../config/check-upstream.ts';
import { TLS_SECTIONS } from '../config/core.ts';
import type { Override } from '../config/env.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { type FoundPlugin, findPlugins } from '../daemon/registry.ts';
import { readTlsFiles } from '../http/tls.ts';
import { CodedError, messageOf } from '../lib/coded-error.ts';
import { EXIT } from '../runtime/errors.ts';
import { builtInDir, packageDirs } from './built-in-dir.ts';
import type { CommandValues } from './command.ts';
import type { CliIo } from './io.ts';

/** Defaults of a start without configuration: the demo delivers webhooks to a receiver on the same machine. */
const PLAIN_START = { webhooks: { allowCidrs: ['127.0.0.1/32'] } };

interface LoadCliOptions {
  /** Report a missing upstream as an error; commands that only use the store do not need one. */
  readonly needsUpstream?: boolean;
  /** Report a certificate that cannot be served as an error. */
  readonly listens?: boolean;
}

/** Configuration of a command line: file, environment, flags. Errors: those of `loadConfig` and `findPlugins`, exit 78. */
export async function loadCliConfig(
  values: CommandValues,
  io: CliIo,
  { needsUpstream = false, listens = false }: LoadCliOptions = {},
): Promise<LoadedConfig<FoundPlugin>> {
  const given = values['config'];
  const file = typeof given === 'string' ? resolve(io.cwd, given) : null;
  const plain = file === null && io.env['NODE_ENV'] !== 'production';
  return await loadConfig(
    {
      ...{ file, env: io.env, flags: flagOverrides(values) },
      ...(plain ? { base: PLAIN_START } : {}),
      check: (loaded) => [...(needsUpstream ? upstreamProblems(loaded) : []), ...(listens ? tlsProblems(loaded) : [])],
    },
    (entries, baseDir, report) => findPlugins(entries, { builtInDir, baseDir, packageDirs: packageDirs(file) }, report),
  );
}

function tlsProblems({ core }: LoadedConfig): readonly string[] {
  return TLS_SECTIONS.flatMap((section) => {
    try {
      readTlsFiles(core, section);
      return [];
    } catch (error) {
      return [messageOf(error)];
    }
  });
}

const PORTS = [
  ['port', '--port', 'http'],
  ['adminPort', '--admin-port', 'admin'],
] as const;

function flagOverrides(values: CommandValues): Override[] {
  const overrides: Override[] = [];
  const dataDir = values['dataDir'];
  if (typeof dataDir === 'string') overrides.push({ path: ['dataDir'], value: dataDir, origin: '--data-dir' });
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
