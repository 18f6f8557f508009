import { sql } from 'kysely';
import { inList } from '../../src/lib/in-list.ts';
import { createLru } from '../../src/lib/lru.ts';
import type { Store } from '../../src/plugin/plugin.ts';
import type { AnsweredRequest } from '../../src/ports/daemon-view.ts';
import type { ApiPeers } from '../../src/ports/processes.ts';
import { tables } from './store.ts';

/** The last requests of each project, in the memory of the processes of the API, and when each key was last used, in the store. */
export interface RecentRequests {
  note(request: AnsweredRequest): void;
  /** Answered requests of all API processes, newest first. */
  list(projectId: string): Promise<readonly AnsweredRequest[]>;
  /** Unix milliseconds of the last use, by key id. */
  lastUses(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Writes the uses that are not stored yet. */
  flush(): Promise<void>;
}

const PER_PROJECT = 200;
const MAX_PROJECTS = 200;
/** Keys whose use is not written yet; a flush is due long before. */
const MAX_KEYS = 10_000;

export function createRecentRequests(store: Store, peers: ApiPeers | null = null): RecentRequests {
  const byProject = createLru<string, { readonly ring: AnsweredRequest[]; next: number }>({ max: MAX_PROJECTS });
  let unwritten = new Map<string, number>();
  const listHere = (projectId: string): readonly AnsweredRequest[] => {
    const kept = byProject.get(projectId);
    if (kept === undefined) return [];
    return [...kept.ring.slice(kept.next), ...kept.ring.slice(0, kept.next)].reverse();
  };
  peers?.answer('requests', (projectId) => listHere(String(projectId)));
  return {
    note(request) {
      const kept = byProject.get(request.projectId) ?? { ring: [], next: 0 };
      if (kept.ring.length === 0) byProject.set(request.projectId, kept);
      kept.ring[kept.next] = request;
      kept.next = (kept.next + 1) % PER_PROJECT;
      const { keyId, at } = request;
      if (keyId !== null && (unwritten.size < MAX_KEYS || unwritten.has(keyId))) unwritten.set(keyId, at);
    },
    async list(projectId) {
      const here = listHere(projectId);
      if (peers === null) return here;
      const others = (await peers.askOthers('requests', projectId)) as readonly (readonly AnsweredRequest[])[];
      return [here, ...others]
        .flat()
        .sort((a, b) => b.at - a.at)
        .slice(0, PER_PROJECT);
    },
    async lastUses(keyIds) {
      const rows = await tables(store.read)
        .selectFrom('dashboard_key_uses')
        .selectAll()
        .where(inList(store.dialect, 'key_id', keyIds))
        .execute();
      const found = new Map(rows.map(({ key_id, used_at }) => [key_id, used_at]));
      for (const id of keyIds) {
        const at = unwritten.get(id);
        if (at !== undefined) found.set(id, Math.max(at, found.get(id) ?? 0));
      }
      return found;
    },
    async flush() {
      if (unwritten.size === 0) return;
      const written = unwritten;
      unwritten = new Map();
      const greatest = store.dialect === 'sqlite' ? sql.raw('max') : sql.raw('greatest');
      try {
        await store.write(async ({ db }) => {
          for (const [key_id, used_at] of written)
            await tables(db)
              .insertInto('dashboard_key_uses')
              .values({ key_id, used_at })
              .onConflict((on) =>
                on.column('key_id').doUpdateSet({
                  used_at: sql<number>`${greatest}(dashboard_key_uses.used_at, excluded.used_at)`,
                }),
              )
              .execute();
        });
      } catch (error) {
        for (const [id, at] of written) unwritten.set(id, Math.max(at, unwritten.get(id) ?? 0));
        throw error;
      }
    },
  };
}
