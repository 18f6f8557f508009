import { resolve } from 'node:path';
import type { Override } from '../kernel/config/env.ts';
import { type LoadedConfig, loadConfig } from '../kernel/config/load.ts';
import { TLS_SECTIONS } from '../kernel/config/tls.ts';
import { EXIT } from '../kernel/errors.ts';
import { readTlsFiles } from '../kernel/http/tls-files.ts';
import { type FoundPlugin, findPlugins } from '../kernel/plugins/registry.ts';
import { CodedError, messageOf } from '../lib/coded-error.ts';
import { builtInDir } from './built-in-dir.ts';
import type { CommandValues } from './command.ts';
import type { CliIo } from './io.ts';
import { upstreamProblems } from './upstream-choice.ts';

/** What a start for a person sets: its demo delivers webhooks to a receiver on the same machine. */
const PLAIN_START = { webhooks: { allowCidrs: ['127.0.0.1/32'] } };

export interface LoadCliOptions {
  /** A missing upstream is one more error; commands that only use the store do without. */
  readonly needsUpstream?: boolean;
  /** A certificate that cannot be served is one more error. */
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
    (entries, baseDir, report) => findPlugins(entries, { builtInDir, baseDir, packageDir: io.cwd }, report),
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
      throw new CodedError('CONFIG_INVALID', '--rewind-to wants a slot', { exitCode: EXIT.usage });
    overrides.push({ path: ['follow', 'rewindTo'], value: Number(rewindTo), origin: '--rewind-to' });
  }
  const level = values['logLevel'];
  if (typeof level === 'string') overrides.push({ path: ['log', 'level'], value: level, origin: '--log-level' });
  for (const [name, flag, section] of PORTS) {
    const port = values[name];
    if (typeof port !== 'string') continue;
    if (!/^\d{1,5}$/.test(port))
      throw new CodedError('CONFIG_INVALID', `${flag} wants a number`, { exitCode: EXIT.usage });
    overrides.push({ path: [section, 'port'], value: Number(port), origin: flag });
  }
  return overrides;
}
