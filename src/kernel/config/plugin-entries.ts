import type { CoreConfig } from './core.ts';

/** One entry of `plugins` in its long form. */
export interface PluginEntry {
  /** Built-in name, path or package name. */
  readonly use: string;
  readonly enabled: boolean;
}

export function pluginEntries(list: CoreConfig['plugins']): readonly PluginEntry[] {
  return list.map((entry) =>
    typeof entry === 'string' ? { use: entry, enabled: true } : { use: entry.use, enabled: entry.enabled ?? true },
  );
}
