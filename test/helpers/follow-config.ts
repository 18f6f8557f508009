import { Value } from '@sinclair/typebox/value';
import { type CoreConfig, coreConfig } from '../../src/config/core.ts';

/** The defaults, with other values for following. */
export function followConfig(changes: Partial<CoreConfig['follow']> = {}): CoreConfig {
  const core = Value.Default(coreConfig, {}) as CoreConfig;
  return { ...core, follow: { ...core.follow, ...changes } };
}
