/**
 * What a part of a daemon does: `api` answers requests, `indexer` follows the chains and runs the block processors, `deliverer` runs the
 * jobs. Every role has its own plugins, store connections and upstream pools, in a thread or a process of its own, or together with others.
 */
export type Role = 'api' | 'indexer' | 'deliverer';

/** All of them, in the order in which they are named. */
export const ROLES: readonly Role[] = ['api', 'indexer', 'deliverer'];

export type Roles = ReadonlySet<Role>;
