import { checkUpstream, type UpstreamChoice } from '../kernel/config/check-upstream.ts';
import type { LoadedConfig } from '../kernel/config/load.ts';
import { messageOf } from '../lib/coded-error.ts';

/** Errors: CONFIG_INVALID, exit 78. */
export function chooseUpstream({ core, file, productionEnv }: LoadedConfig): UpstreamChoice {
  return checkUpstream({
    urlCount: core.upstream.urls.length,
    mode: core.upstream.local.mode,
    fromFile: file !== null,
    productionEnv,
  });
}

/** What is wrong with that choice, as sentences. */
export function upstreamProblems(config: LoadedConfig): readonly string[] {
  try {
    chooseUpstream(config);
    return [];
  } catch (error) {
    return [messageOf(error)];
  }
}
