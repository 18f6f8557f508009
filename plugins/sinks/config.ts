import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';
import type { RowFilter } from './rows/filter.ts';
import { EVENT_TABLES, SINK_TABLE_NAMES } from './rows/tables.ts';

const closed = { additionalProperties: false } as const;
const MAX_FILTERED = 10_000;

const addresses = (description: string) =>
  Type.Optional(Type.Array(Type.String({ format: 'address' }), { default: [], maxItems: MAX_FILTERED, description }));

const TRANSFER_KINDS = ['transfer', 'mint', 'burn', 'wrap', 'unwrap', 'changeOwner', 'withdrawWithheldFee'] as const;

const filter = Type.Object(
  {
    addresses: addresses(
      'only transactions with one of these among their keys, or as the owner of a token account; empty = all, as for the other lists',
    ),
    programs: addresses(
      'only transactions that run one of these, and of them only its instructions and lines of the log',
    ),
    owners: addresses('only transfers, changes of balance and of assets of these owners, and transactions with one'),
    mints: Type.Optional(
      Type.Array(Type.Union([Type.String({ format: 'address' }), Type.Literal('native')]), {
        default: [],
        maxItems: MAX_FILTERED,
        description:
          'only transfers, changes of balance and of assets of these mints or assets, and transactions with one; native = SOL',
      }),
    ),
    kinds: Type.Optional(
      Type.Array(Type.Union(TRANSFER_KINDS.map((kind) => Type.Literal(kind))), {
        default: [],
        description: 'only transfers of these kinds, and transactions with one',
      }),
    ),
    votes: Type.Optional(Type.Boolean({ default: false, description: 'include simple votes' })),
    failed: Type.Optional(Type.Boolean({ default: true, description: 'include failed transactions' })),
  },
  { ...closed, default: {}, description: 'which rows are written' },
);

const TABLE_NAMES = [...SINK_TABLE_NAMES, ...EVENT_TABLES.map(({ name }) => name)];

const BATCH_BYTES = 16_777_216;

const sink = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z][a-z0-9-]{0,31}$', description: 'name in commands, metrics and the target' }),
    kind: Type.String({
      pattern: '^[a-z][a-z0-9-]{0,31}$',
      description: 'postgres, clickhouse, parquet, ndjson, stdout, nats, kafka, s3, or a kind that another plugin adds',
    }),
    target: Type.String({
      minLength: 1,
      secret: true,
      description:
        'postgres://user:password@host:port/database; clickhouse://[user:password@]host:port; parquet, ndjson: absolute path of a folder; stdout: - or the file in which the reader ' +
        'keeps its position; nats://[user:password@]host:port; kafka://[user:password@]host:port; s3://[KEY:SECRET@]host/bucket/prefix',
    }),
    options: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        default: {},
        description:
          'settings of the kind; postgres: schema (default: sink_NAME); clickhouse: database (sink_NAME); nats: stream (sink_NAME), subject (parhelion.NAME), replicas (1), ' +
          'credentials (a file); kafka: prefix of the topics (parhelion.NAME), replicas; parquet, s3: amounts (integer, decimal or text)',
      }),
    ),
    chain: Type.Optional(
      Type.Union([Type.Literal('main'), Type.Literal('devnet')], {
        default: 'main',
        description: 'chain whose blocks are written',
      }),
    ),
    from: Type.Optional(
      Type.Union([Type.Literal('oldest'), Type.Literal('now'), Type.Integer({ minimum: 0 })], {
        default: 'oldest',
        description: 'first slot of a target that is empty: the oldest of the ledger, the newest final one, or a slot',
      }),
    ),
    tables: Type.Optional(
      Type.Array(Type.Union(TABLE_NAMES.map((name) => Type.Literal(name))), {
        default: [...SINK_TABLE_NAMES],
        minItems: 1,
        maxItems: TABLE_NAMES.length,
        description: 'tables that are written; account_writes and deliveries have to be named',
      }),
    ),
    filter: Type.Optional(filter),
    batchSlots: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100_000,
        description:
          'most slots of one batch; default: as the kind wants (postgres and clickhouse 256, parquet and s3 4096, ndjson 1024, others 64)',
      }),
    ),
    batchSeconds: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 3_600,
        description:
          'how long a batch waits for more slots; default: as the kind wants (postgres and clickhouse 1, parquet and s3 300, ndjson 60, others 0)',
      }),
    ),
    batchBytes: Type.Optional(
      Type.Integer({
        minimum: 65_536,
        maximum: 268_435_456,
        default: BATCH_BYTES,
        description:
          'a batch with so many bytes of rows is written at once; a sink takes three to six times this in memory',
      }),
    ),
  },
  closed,
);

export const sinksConfig = Type.Object(
  {
    targets: Type.Array(sink, {
      default: [],
      maxItems: 32,
      description: 'places that rows of final blocks are written to',
    }),
    accounts: Type.Array(Type.String({ format: 'address' }), {
      default: [],
      maxItems: MAX_FILTERED,
      description:
        'accounts whose state is read from the upstreams after each final block that may have written them, for the table account_writes',
    }),
    keptBytes: reloadable(
      Type.Integer({
        minimum: 65_536,
        default: 1_073_741_824,
        description:
          'most bytes of rows that no block contains (account_writes, deliveries), kept in the store until all sinks have them; beyond it the oldest are dropped, ' +
          'and each sink that lacked them has a hole, which `sinks list` names for ever; checked every 10 seconds',
      }),
    ),
    idlFolder: Type.Union([Type.String({ format: 'file' }), Type.Null()], {
      default: null,
      description:
        'folder with interfaces (IDL) as PROGRAM.json, which give instructions names beside the built-in ones; read at the start',
    }),
  },
  {
    ...closed,
    default: {},
    description:
      'rows of final blocks in databases and files; needs `sinks` in the list of plugins, which by default does not contain it',
  },
);

export type SinksConfig = Static<typeof sinksConfig>;
export type SinkConfig = Static<typeof sink>;

/** A sink with all its values: those of items of a list have no defaults of their own. */
export function withDefaults({ filter: given = {}, ...target }: SinkConfig) {
  const {
    addresses: among = [],
    programs = [],
    owners = [],
    mints = [],
    kinds = [],
    votes = false,
    failed = true,
  } = given;
  const { options = {}, chain = 'main', from = 'oldest', tables = SINK_TABLE_NAMES, batchBytes = BATCH_BYTES } = target;
  const filter: RowFilter = { addresses: among, programs, owners, mints, kinds, votes, failed };
  return { ...target, options, chain, from, tables: [...new Set(tables)], batchBytes, filter };
}

export type Sink = ReturnType<typeof withDefaults>;
