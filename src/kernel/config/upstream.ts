import { type Static, Type } from '@sinclair/typebox';
import { closed, count, port, secret } from './pieces.ts';

/** One entry of a list of upstreams: an address, or an address with details. */
const upstreamEntry = Type.Union([
  Type.String({ format: 'http-url', ...secret }),
  Type.Object(
    {
      url: Type.String({
        format: 'http-url',
        description: 'http or https address of the JSON-RPC endpoint',
        ...secret,
      }),
      websocketUrl: Type.Optional(
        Type.String({
          format: 'ws-url',
          description: 'websocket address; default: the same host, or port + 1 on loopback',
          ...secret,
        }),
      ),
      headers: Type.Optional(
        Type.Record(Type.String(), Type.String(secret), { description: 'headers sent with each request' }),
      ),
      maxConcurrent: Type.Optional(count(64, 'requests at once')),
      archive: Type.Optional(
        Type.Boolean({
          default: false,
          description:
            'keeps the whole history: such upstreams alone are read for the past of wallets, and asked first for what is old in calls that are passed on',
        }),
      ),
    },
    closed,
  ),
]);

/** Where chains are read: addresses of nodes, or the local chain. */
export const upstreamConfig = Type.Object(
  {
    urls: Type.Array(upstreamEntry, {
      default: [],
      description: 'JSON-RPC addresses of the main chain, in order of preference; SOLANA_RPC_URL sets it too',
    }),
    devnet: Type.Object(
      { urls: Type.Array(upstreamEntry, { default: [], description: 'JSON-RPC addresses of the second chain' }) },
      { ...closed, default: {} },
    ),
    healthIntervalMs: count(5_000, 'pause between health checks'),
    coolDownMs: count(10_000, 'how long a failing upstream is left alone'),
    distrustMs: count(60_000, 'how long an upstream that contradicted the chain is left alone'),
    local: Type.Object(
      {
        mode: Type.Union([Type.Literal('auto'), Type.Literal('on'), Type.Literal('off')], {
          default: 'auto',
          description: 'the throw-away local chain',
        }),
        port: port(8899, 'its port; 0 = any free port'),
        slotMs: count(400, 'length of a slot', 0),
        seed: Type.Union([Type.String(), Type.Null()], {
          default: null,
          description: 'genesis seed; null = random at each start',
        }),
        demo: Type.Boolean({ default: true, description: 'run the demo scenario' }),
        control: Type.Boolean({ default: true, description: 'offer the local_* control methods' }),
        finalityDepth: count(32, 'blocks above a finalized block', 0),
        firstSlot: count(1_000, 'slot of the first block', 0),
        maxBlocks: count(20_000, 'older blocks are pruned'),
        lightAssets: Type.Union([Type.String(), Type.Null()], {
          default: null,
          description: 'folder with Light Protocol programs and accounts',
        }),
      },
      { ...closed, default: {} },
    ),
  },
  { ...closed, default: {} },
);

export type UpstreamEntry = Static<typeof upstreamEntry>;
