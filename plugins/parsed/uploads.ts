/** Interfaces that a project uploads for itself: they come before all others in its answers, and nobody else sees them. */
import { createHash } from 'node:crypto';
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { decode32 } from '../../src/lib/base58.ts';
import { stringify } from '../../src/lib/json.ts';
import {
  type Clock,
  defineRoute,
  json,
  type Price,
  RequestError,
  type Route,
  type Store,
  Type,
} from '../../src/plugin/plugin.ts';
import { readIdl } from '../../src/solana/idl/read-idl.ts';
import { address, count, oneOf, orNull, slot, text, time } from '../../src/solana/schemas.ts';
import type { ParsedConfig } from './config.ts';
import {
  FOREVER,
  INTERFACE_SOURCES,
  type KnownVersion,
  MEMORY_PER_CHARACTER,
  NOW,
  type OwnInterfaces,
  type OwnOf,
  shareOf,
  type Version,
} from './interfaces/index.ts';
import { PARSED_REFUSALS, TAG } from './routes.ts';
import {
  deleteUploads,
  insertUpload,
  listUploads,
  noteUploadChange,
  readUploads,
  type Upload,
  uploadChanges,
} from './store.ts';
import { type ElementParts, learnAs } from './transactions.ts';

interface UploadParts {
  readonly store: () => Store;
  readonly clock: Clock;
  readonly config: Pick<ParsedConfig, 'idls'>;
}

interface CachedUploads {
  readonly changes: number;
  /** Null: none. */
  readonly own: OwnInterfaces | null;
  readonly size: number;
  /** Monotonic milliseconds. */
  checkedAt: number;
}

const FRESH_MS = 1_000;
const ENTRY_BYTES = 512;

export function createOwnOf({ store, clock, config }: UploadParts): OwnOf {
  const kept = new LRUCache<string, CachedUploads>({
    maxSize: config.idls.cacheBytes,
    sizeCalculation: ({ size }) => ENTRY_BYTES + size * MEMORY_PER_CHARACTER,
  });
  return async (project, { mayBeOld } = { mayBeOld: false }) => {
    const known = kept.get(project);
    const now = clock.monotonic();
    if (known !== undefined && mayBeOld && now - known.checkedAt < FRESH_MS) return known.own;
    const db = store().read;
    const changes = await uploadChanges(db, project);
    if (known?.changes === changes) {
      known.checkedAt = now;
      return known.own;
    }
    // What is uploaded between the two readings is read, and read again with the next change.
    const rows = changes === 0 ? [] : await readUploads(db, project);
    const own = new Map<string, readonly Version[]>();
    for (const { program, fromSlot, text: idl } of rows) {
      // To read many texts takes long.
      await yieldToOthers();
      const read = readIdl(idl);
      if (read !== null) own.set(program, over(own.get(program) ?? [], { from: fromSlot, to: FOREVER, program: read }));
    }
    const one = {
      changes,
      own: own.size === 0 ? null : own,
      size: rows.reduce((sum, row) => sum + row.text.length, 0),
    };
    kept.set(project, { ...one, checkedAt: now });
    return one.own;
  };
}

/** A later upload replaces the earlier ones from its first slot on. */
function over(earlier: readonly Version[], next: Version): readonly Version[] {
  const left = earlier.map((one) => ({ ...one, to: Math.min(one.to, next.from) }));
  return [...left.filter(({ from, to }) => from < to), next];
}

// -------------------------------------------------------------------------------------------------------------- routes

const PATH = '/v1/parsed-events/idls';
const MAX_SLOT = 100_000_000_000;

export const uploadReply = Type.Object(
  {
    programId: address('Program'),
    version: count('Number of the version, from 1 on', 1),
    fromSlot: slot('First slot in which it is used'),
    name: orNull(text('Name of the program in the interface', 'my_program')),
    hash: text(
      'SHA-256 of the stored text, in hex',
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    ),
    bytes: count('Size of the stored text', 12_345),
    createdAt: time('When it was uploaded'),
  },
  { title: 'UploadedInterface', description: 'An interface that the project has uploaded' },
);

export const knownReply = Type.Object(
  {
    source: oneOf(
      INTERFACE_SOURCES,
      'project: uploaded by this project; folder: of the operator; builtIn: of this daemon; chain: published by the program',
    ),
    fromSlot: slot('First slot in which it is used'),
    toSlot: orNull(slot('First slot in which it is no longer used; null: it is the newest of its source')),
    name: orNull(text('Name of the program in the interface', 'my_program')),
    instructions: orNull(
      Type.Array(text('Name', 'transfer_checked'), {
        description:
          'Names of its instructions; null: the program published no interface then, or none that can be read',
      }),
    ),
  },
  { title: 'KnownInterface', description: 'A version of an interface' },
);

const params = Type.Object({ programId: address('Program') }, { description: 'The program' });

const shown = ({ program, createdAt, ...rest }: Upload) => ({
  programId: program,
  ...rest,
  createdAt: new Date(createdAt).toISOString(),
});

const knownOf = ({ source, from, to, program }: KnownVersion) => ({
  source,
  fromSlot: from,
  toSlot: to === FOREVER ? null : to,
  name: program?.name ?? null,
  instructions: program?.instructions() ?? null,
});

function programOf({ programId }: { readonly programId: string }): string {
  if (decode32(programId) === null) throw new RequestError(400, 'programId must be an address in base58');
  return programId;
}

interface RouteParts extends UploadParts {
  readonly config: ParsedConfig;
  readonly elements: ElementParts;
}

export function uploadRoutes({ store, clock, config, elements }: RouteParts): readonly Route[] {
  const priced = (credits: () => number): Price => ({
    product: 'enhancedApi',
    get credits() {
      return credits();
    },
    groups: ['das'],
  });
  const free = priced(() => 0);
  const common = { tag: TAG, auth: 'key', errors: 'wallet' } as const;

  const list = defineRoute({
    ...common,
    method: 'GET',
    path: PATH,
    summary: 'Interfaces that the project has uploaded',
    price: free,
    replies: {
      200: Type.Object(
        { data: Type.Array(uploadReply, { description: 'Oldest first, by program' }) },
        { description: 'The list' },
      ),
      ...PARSED_REFUSALS,
    },
    handler: async ({ caller }) => json({ data: (await listUploads(store().read, caller!.projectId)).map(shown) }),
  });

  const show = defineRoute({
    ...common,
    method: 'GET',
    path: `${PATH}/:programId`,
    summary: 'Interfaces that are known of a program',
    params,
    description:
      'In the order in which they are asked: an instruction is decoded by the first source that has a version for its slot. Newest first within a source. Of what a program publishes, the versions that this daemon has seen.',
    price: priced(() => config.credits.request),
    get timeoutMs() {
      return config.timeoutMs;
    },
    replies: {
      200: Type.Object(
        { programId: address('Program'), versions: Type.Array(knownReply, { description: 'The versions' }) },
        { title: 'KnownInterfaces', description: 'What is known of the program' },
      ),
      ...PARSED_REFUSALS,
    },
    async handler({ params: path, caller, signal, tenant }) {
      const programId = programOf(path);
      const asker = { signal, tenant, project: caller!.projectId };
      const versions = (await learnAs(new Map([[programId, NOW]]), elements, asker)).versionsOf(programId);
      // That a program has not published anything yet is no version.
      const published = (one: KnownVersion) =>
        one.program !== null || versions.some(({ source, from }) => source === one.source && from < one.from);
      const ordered = INTERFACE_SOURCES.flatMap((source) =>
        versions.filter((one) => one.source === source && published(one)).toReversed(),
      );
      return json({ programId, versions: ordered.map(knownOf) });
    },
  });

  const put = defineRoute({
    ...common,
    method: 'PUT',
    path: `${PATH}/:programId`,
    summary: 'Upload an interface of a program',
    params,
    description:
      'The interface is used in all answers and streams of the project, before those of the chain and of the operator. A further upload is a new version, which replaces the earlier ones from `fromSlot` on. A text that is equal to that of the newest version makes no new one.',
    price: priced(() => config.credits.request),
    body: Type.Object(
      {
        idl: Type.Object(
          {},
          {
            additionalProperties: true,
            description: 'The interface: of Anchor, Codama or Shank',
            examples: [{ metadata: { name: 'notes' }, instructions: [] }],
          },
        ),
        fromSlot: Type.Optional(slot('First slot in which it is used; default 0, which means always')),
      },
      { additionalProperties: false, description: 'The interface' },
    ),
    replies: { 200: uploadReply, ...PARSED_REFUSALS },
    async handler({ body, params: path, caller }) {
      const program = programOf(path);
      const { fromSlot = 0 } = body;
      if (fromSlot > MAX_SLOT) throw new RequestError(400, `fromSlot must be at most ${MAX_SLOT}`);
      const idl = stringify(body.idl);
      const read = readIdl(idl);
      if (read === null) throw new RequestError(400, 'idl is not an IDL of Anchor, Codama or Shank');
      if (read.address !== null && read.address !== program)
        throw new RequestError(400, 'idl is the interface of another program: its address is not programId');
      const project = caller!.projectId;
      const hash = createHash('sha256').update(idl).digest('hex');
      const bytes = Buffer.byteLength(idl);
      const made = await store().write(async (tx) => {
        // First, so that two uploads of a project do not pass its limits together.
        await noteUploadChange(tx, project);
        const all = await listUploads(tx.db, project);
        const own = all.filter((one) => one.program === program);
        const newest = own.at(-1);
        if (newest !== undefined && newest.hash === hash && newest.fromSlot === fromSlot) return newest;
        demandRoom(all, own, program, bytes, config.idls);
        const version = (newest?.version ?? 0) + 1;
        const one = { program, version, fromSlot, name: read.name, hash, bytes, createdAt: clock.now() };
        await insertUpload(tx, project, one, idl);
        return one;
      });
      return json(shown(made));
    },
  });

  const remove = defineRoute({
    ...common,
    method: 'DELETE',
    path: `${PATH}/:programId`,
    summary: 'Delete uploaded interfaces of a program',
    params,
    price: free,
    query: Type.Object({
      version: Type.Optional(
        Type.Integer({ minimum: 1, description: 'Only this version; default all', examples: [2] }),
      ),
    }),
    replies: {
      200: Type.Object({ deleted: count('Versions that were deleted', 1) }, { description: 'What was deleted' }),
      ...PARSED_REFUSALS,
      404: PARSED_REFUSALS[400],
    },
    async handler({ params: path, query: { version }, caller }) {
      const program = programOf(path);
      const deleted = await store().write(async (tx) => {
        await noteUploadChange(tx, caller!.projectId);
        return await deleteUploads(tx, caller!.projectId, { program, ...(version !== undefined && { version }) });
      });
      if (deleted === 0) throw new RequestError(404, 'the project has no such interface');
      return json({ deleted });
    },
  });
  return [list, show, put, remove];
}

function demandRoom(
  all: readonly Upload[],
  own: readonly Upload[],
  program: string,
  bytes: number,
  { cacheBytes, uploads: { maxPrograms, maxVersions, maxBytes } }: ParsedConfig['idls'],
): void {
  const refuse = (limit: string): never => {
    throw new RequestError(400, `${limit}; delete some first`);
  };
  const programs = new Set(all.map((one) => one.program)).add(program);
  if (programs.size > maxPrograms) refuse(`a project has interfaces of at most ${maxPrograms} programs`);
  if (own.length >= maxVersions) refuse(`a program has at most ${maxVersions} versions`);
  const total = all.reduce((sum, one) => sum + one.bytes, bytes);
  const most = Math.min(maxBytes, Math.floor((shareOf(cacheBytes) - ENTRY_BYTES) / MEMORY_PER_CHARACTER));
  if (total > most) refuse(`the interfaces of a project have at most ${most} bytes`);
}
