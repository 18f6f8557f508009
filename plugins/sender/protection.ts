import { RpcError, type UpstreamPool } from '../../src/plugin/plugin.ts';
import type { Targets } from './broadcast.ts';
import type { SenderConfig } from './config.ts';

/** Where transactions and bundles go whose senders asked for `mev-protect`. It is never granted in silence by doing nothing. */
export interface Protection {
  /** Reads the values of the query parameter. Throws -32602 for anything but `true` and `false`. */
  wanted(values: readonly string[]): boolean;
  /** Null: no send upstream offers it, and `missing` has to be said. Throws -32602 where that is not enough. */
  targets(): Targets | null;
  readonly missing: Readonly<Record<string, string>>;
}

/** `entries` are those of the pool, in its order. */
export function createProtection(
  pool: UpstreamPool | null,
  entries: SenderConfig['urls'] | SenderConfig['bundleUrls'],
  otherwise: SenderConfig['mevProtect'],
): Protection {
  const marked = entries.flatMap((entry, order) =>
    pool !== null && typeof entry === 'object' && entry.mevProtect === true ? [`${pool.label}-${order}`] : [],
  );
  const only = new Set(marked);
  return {
    missing: { 'x-mev-protect': 'not-available' },
    wanted(values) {
      const given = values.filter((value) => value !== '');
      if (given.some((value) => value !== 'true' && value !== 'false') || new Set(given).size > 1) {
        throw new RpcError('invalidParams', { details: 'mev-protect has to be true or false' });
      }
      return given[0] === 'true';
    },
    targets() {
      if (pool !== null && only.size > 0) return { pool, only, query: 'mev-protect=true' };
      if (otherwise === 'ignore') return null;
      throw new RpcError('invalidParams', { details: 'no send upstream offers mev-protect' });
    },
  };
}
