import { createRequire } from 'node:module';
import { lazy } from '../lib/lazy.ts';

interface Undici extends Pick<typeof import('undici'), 'Pool' | 'buildConnector'> {
  /** Under which a socket holds its parser. */
  readonly kParser: symbol;
}

/**
 * The parts of undici that are used. Its index also loads fetch, caches, mocks and websockets, which takes three times the time and
 * memory, in each thread.
 */
export const undici = lazy((): Undici => {
  const load = createRequire(import.meta.url);
  const pool = load('undici/lib/dispatcher/pool.js') as Undici['Pool'];
  const dispatcher = load('undici/lib/dispatcher/dispatcher.js') as { prototype: object };
  // The index of undici does the same for all its methods.
  Object.assign(dispatcher.prototype, { request: load('undici/lib/api/api-request.js') as unknown });
  const { kParser } = load('undici/lib/core/symbols.js') as Pick<Undici, 'kParser'>;
  return { Pool: pool, buildConnector: load('undici/lib/core/connect.js') as Undici['buildConnector'], kParser };
});
