import { stringify } from 'yaml';
import type { LoadedConfig } from './load.ts';
import { maskSecrets } from './mask.ts';

/** The effective configuration as YAML or JSON, secrets masked. */
export function dumpConfig(config: LoadedConfig, format: 'yaml' | 'json'): string {
  const masked = maskSecrets(config.schema, config.values);
  return format === 'json' ? `${JSON.stringify(masked, null, 2)}\n` : stringify(masked, { lineWidth: 0 });
}
