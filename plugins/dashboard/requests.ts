import { sql } from 'kysely';
import { inList } from '../../src/lib/in-list.ts';
import { createLru } from '../../src/lib/lru.ts';
import { maskKeyWords, maskPath, maskQuery } from '../../src/lib/mask-keys.ts';
import type { Store } from '../../src/plugin/plugin.ts';
import type { AnsweredRequest, RequestContent } from '../../src/ports/daemon-view.ts';
import type { ApiPeers } from '../../src/ports/processes.ts';
import type { DashboardConfig } from './config.ts';
import { tables } from './store.ts';

/** The last requests of each project, in the memory of the processes of the API, and when each key was last used, in the store. */
export interface RecentRequests {
  note(request: AnsweredRequest, content: RequestContent): void;
  /** Answered requests of all API processes, newest first. */
  list(projectId: string): Promise<readonly AnsweredRequest[]>;
  /** What is still known of one of them, in any API process; null: nothing. */
  find(projectId: string, requestId: string): Promise<KeptRequest | null>;
  /** Unix milliseconds of the last use, by key id. */
  lastUses(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Writes the uses that are not stored yet. */
  flush(): Promise<void>;
}

/** A request with what it contained. Keys are masked. */
export interface KeptRequest extends AnsweredRequest {
  /** Null: bodies are not kept, or this one had to make room. */
  readonly content: {
    /** What the client called this host, such as `localhost:8787`; null if that is no name of a host. */
    readonly host: string | null;
    readonly path: string;
    readonly query: string;
    /** The beginning of it; null without one. */
    readonly body: string | null;
    readonly bodyBytes: number;
    /** Whether the rest of the body is not kept. */
    readonly isCut: boolean;
    /** False: something is masked or cut off, so that the request cannot be repeated as it is here. */
    readonly isWhole: boolean;
    /** The answer of a request that failed. */
    readonly failure: string | null;
  } | null;
}

/** What is kept of the content of a request. The body is in latin1, which costs the least; it is decoded when somebody looks. */
interface Content {
  readonly host: string | undefined;
  readonly path: string;
  readonly query: string;
  readonly body: string | null;
  readonly bodyBytes: number;
  readonly failure: string | null;
}

const BODY_BYTES = 4_096;
/** Bound of the contents of all projects, in one process. */
const CONTENT_BYTES = 8_388_608;
const ENTRY_BYTES = 256;

const sizeOf = ({ path, query, body, failure }: Content): number =>
  ENTRY_BYTES + path.length + query.length + (body?.length ?? 0) + 2 * (failure?.length ?? 0);

/** The last requests of a project, each with its content at the same place; null: it is not kept. */
interface Ring {
  readonly requests: AnsweredRequest[];
  readonly contents: (Content | null)[];
  next: number;
}

const PER_PROJECT = 200;
const MAX_PROJECTS = 200;
/** Keys whose use is not written yet; a flush is due long before. */
const MAX_KEYS = 10_000;

export function createRecentRequests(
  store: Store,
  config: Pick<DashboardConfig, 'requestBodies'>,
  peers: ApiPeers | null = null,
): RecentRequests {
  /** Bytes of all contents. */
  let contentBytes = 0;
  const setContent = ({ contents }: Ring, place: number, content: Content | null) => {
    const before = contents[place] ?? null;
    contentBytes += (content === null ? 0 : sizeOf(content)) - (before === null ? 0 : sizeOf(before));
    contents[place] = content;
  };
  const dropContents = (ring: Ring) => {
    for (const place of ring.contents.keys()) setContent(ring, place, null);
  };
  const byProject = createLru<string, Ring>({ max: MAX_PROJECTS, dispose: dropContents });
  let unwritten = new Map<string, number>();
  /** Makes room: the contents of the projects go first that called longest ago. */
  const boundContents = () => {
    for (const ring of byProject.rvalues()) if (ring !== undefined && contentBytes > CONTENT_BYTES) dropContents(ring);
  };
  const listHere = (projectId: string): readonly AnsweredRequest[] => {
    const kept = byProject.get(projectId);
    if (kept === undefined) return [];
    const { requests, next } = kept;
    return [...requests.slice(next), ...requests.slice(0, next)].reverse();
  };
  const findHere = (projectId: string, requestId: string): KeptRequest | null => {
    const kept = byProject.get(projectId);
    const place = kept?.requests.findIndex((one) => one.requestId === requestId) ?? -1;
    const request = kept?.requests[place];
    if (request === undefined) return null;
    const content = kept?.contents[place] ?? null;
    return { ...request, content: content === null ? null : shown(content, request.route) };
  };
  peers?.answer('requests', (projectId) => listHere(String(projectId)));
  peers?.answer('request', (asked) => {
    const [projectId, requestId] = asked as readonly [string, string];
    return findHere(projectId, requestId);
  });
  return {
    note(request, { host, path, query, body, failure }) {
      const kept = byProject.get(request.projectId) ?? { requests: [], contents: [], next: 0 };
      if (kept.requests.length === 0) byProject.set(request.projectId, kept);
      const content: Content | null = config.requestBodies
        ? {
            host,
            path,
            query: maskQuery(query),
            body: body === null ? null : body.toString('latin1', 0, BODY_BYTES),
            bodyBytes: body?.length ?? 0,
            failure,
          }
        : null;
      kept.requests[kept.next] = request;
      setContent(kept, kept.next, content);
      if (contentBytes > CONTENT_BYTES) boundContents();
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
    async find(projectId, requestId) {
      const here = findHere(projectId, requestId);
      if (here !== null || peers === null) return here;
      const others = (await peers.askOthers('request', [projectId, requestId])) as readonly (KeptRequest | null)[];
      return others.find((one) => one !== null) ?? null;
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

const HOST = /^[\w.:[\]-]{1,255}$/;
const ID_PARAMETER = /^:\w+I[Dd]$/;
/** Members of bodies that hold a secret of a receiver. */
const SECRET_MEMBER = /("(?:authHeader|signingSecret|secret)"\s*:\s*")(?:[^"\\]|\\.)*/g;

/** Masks what is a key, or may be one. */
function shown(content: Content, route: string): NonNullable<KeptRequest['content']> {
  const { host, failure, bodyBytes } = content;
  const raw = content.body === null ? null : new TextDecoder().decode(Buffer.from(content.body, 'latin1'));
  const body = raw === null ? null : maskText(raw);
  const path = pathOf(content.path, route);
  const isCut = bodyBytes > BODY_BYTES;
  return {
    host: host !== undefined && HOST.test(host) ? host : null,
    path,
    query: content.query,
    body,
    bodyBytes,
    isCut,
    isWhole: !isCut && body === raw && path === content.path,
    failure: failure === null ? null : maskText(failure),
  };
}

const maskText = (text: string): string => maskKeyWords(text.replace(SECRET_MEMBER, '$1***'));

/** Ids of webhooks have the form of keys; they stand where the route has an id. */
function pathOf(path: string, route: string): string {
  const [given, known] = [path.split('/'), route.split('/')];
  return maskPath(path, route)
    .split('/')
    .map((segment, at) => (ID_PARAMETER.test(known[at] ?? '') ? (given[at] ?? segment) : segment))
    .join('/');
}
