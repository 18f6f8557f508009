import { CodedError } from '../lib/coded-error.ts';
import { EXIT } from '../runtime/errors.ts';

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
