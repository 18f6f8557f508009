import { createSystemClock, createSystemRandom } from '../../src/adapters/clock.ts';
import { type CoreConfig, coreConfig } from '../../src/config/core.ts';
import { fillDefaults, type SchemaNode } from '../../src/config/node.ts';
import { createHttpFront, type HttpFront } from '../../src/http/index.ts';
import { createRpcFront } from '../../src/http/json-rpc/front.ts';
import type { Admission, Credentials, Gate, GateItem, RpcFallback, SocketHandler } from '../../src/plugin/host.ts';
import {
  type Caller,
  GateRefusal,
  type GateRefusalReason,
  type Route,
  type RpcMethod,
} from '../../src/plugin/plugin.ts';
import { createMetricsRegistry, type MetricsRegistry } from '../../src/runtime/metrics.ts';
import { createMemoryLog } from './memory-log.ts';

export const GOOD_KEY = 'good-key-0123456789';
const PROJECT = '11111111-2222-4333-8444-555555555555';

export interface Settlement {
  readonly name: string;
  readonly charged: boolean;
  readonly bytesOut: number;
}

/**
 * A gate whose keys say what happens to them: `good-key…` passes, `ip`, `plan`, `permission`, `credits`, `rate` and `batch` are
 * refused for that reason, everything else is unknown. `plan:NAME` refuses only the item with that name.
 */
function createTestGate(): Gate & { readonly settled: Settlement[]; readonly admitted: string[][] } {
  const settled: Settlement[] = [];
  const admitted: string[][] = [];
  const caller = (keyId: string): Caller => ({ projectId: PROJECT, keyId, plan: 'free', wallet: null });
  const authenticate = ({ query, header, bearer }: Credentials): Caller => {
    const keys = new Set(query.filter((key) => key !== ''));
    if (keys.size > 1) throw new GateRefusal('bad-key');
    const key = [...keys][0] ?? (header || bearer || '');
    if (key === '') throw new GateRefusal('no-key');
    if (key === 'ip') throw new GateRefusal('ip');
    if (key !== GOOD_KEY && !/^(plan|permission|credits|rate|batch)/.test(key)) throw new GateRefusal('bad-key');
    return caller(key);
  };
  const admit = ({ keyId }: Caller, items: readonly GateItem[]): Admission => {
    admitted.push(items.map((item) => item.name));
    const [reason = '', name] = (keyId ?? '').split(':');
    const item = items.findIndex((one) => one.name === name);
    if (name !== undefined && item >= 0) throw new GateRefusal(reason as GateRefusalReason, { item });
    if (name === undefined && reason !== GOOD_KEY)
      throw new GateRefusal(reason as GateRefusalReason, {
        ...(reason === 'rate' || reason === 'credits' ? { retryAfterS: 3 } : {}),
        ...(reason === 'batch' ? { details: 'at most 2 items' } : {}),
      });
    return {
      headers: { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '9', 'x-ratelimit-reset': '1700000000' },
      charge: (outcomes) => {
        settled.push(...outcomes.map((outcome, i) => ({ name: items[i]?.name ?? '?', ...outcome })));
        return 0;
      },
    };
  };
  return { authenticate, admit, settled, admitted };
}

export interface TestFront {
  readonly url: string;
  readonly port: number;
  readonly websocketPort: number | null;
  readonly front: HttpFront;
  readonly gate: ReturnType<typeof createTestGate>;
  readonly log: ReturnType<typeof createMemoryLog>;
  readonly registry: MetricsRegistry;
  stop(): Promise<void>;
}

export interface TestFrontOptions {
  readonly routes?: readonly Route[];
  readonly methods?: readonly RpcMethod[];
  readonly fallback?: RpcFallback | null;
  readonly sockets?: SocketHandler | null;
  readonly http?: Partial<CoreConfig['http']>;
  readonly rpc?: Partial<CoreConfig['rpc']>;
  readonly chainLabel?: () => string | null;
  readonly withoutGate?: boolean;
  /** The gate answers after a turn of the event loop, as one that asks a database does. */
  readonly slowGate?: boolean;
  /** Calls are let through once this has resolved. */
  readonly gateOpens?: Promise<unknown>;
}

export function testCore(http: Partial<CoreConfig['http']> = {}, rpc: Partial<CoreConfig['rpc']> = {}): CoreConfig {
  const filled = fillDefaults(coreConfig as unknown as SchemaNode, {}) as CoreConfig;
  return {
    ...filled,
    http: { ...filled.http, port: 0, ...http },
    rpc: { ...filled.rpc, ...rpc },
    admin: { ...filled.admin, port: 0 },
  };
}

function slowly(gate: Gate, opens?: Promise<unknown>): Gate {
  const turn = () => opens ?? new Promise((resolve) => setImmediate(resolve));
  return {
    authenticate: (credentials, address) => turn().then(() => gate.authenticate(credentials, address)),
    admit: (caller, items) => turn().then(() => gate.admit(caller, items)),
  };
}

/** The real fronts over real sockets, with the gate above. */
export async function startFront(options: TestFrontOptions = {}): Promise<TestFront> {
  const core = testCore(options.http, options.rpc);
  const log = createMemoryLog();
  const clock = createSystemClock();
  const registry = createMetricsRegistry();
  const testGate = createTestGate();
  const gate =
    options.withoutGate === true
      ? null
      : options.slowGate === true || options.gateOpens !== undefined
        ? slowly(testGate, options.gateOpens)
        : testGate;
  const rpc = createRpcFront({
    methods: options.methods ?? [],
    fallback: options.fallback ?? null,
    gate,
    core,
    log,
    metrics: registry.scope('rpc'),
    clock,
  });
  const front = createHttpFront({
    core,
    routes: options.routes ?? [],
    rpc,
    gate,
    sockets: options.sockets ?? null,
    log,
    metrics: registry.scope('http'),
    expiry: registry.scope('tls').gauge('certificate_expiry_timestamp_seconds', 'expiry', ['listener']),
    clock,
    random: createSystemRandom(),
    version: '0.0.0-test',
    ...(options.chainLabel === undefined ? {} : { chainLabel: options.chainLabel }),
  });
  const { port, websocketPort } = await front.listen();
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    websocketPort,
    front,
    gate: testGate,
    log,
    registry,
    stop: () => front.close(AbortSignal.timeout(2_000)),
  };
}

/** Starts both listeners. If the port after the first one is taken, another pair is tried. */
export async function startFrontPair(
  options: TestFrontOptions = {},
): Promise<TestFront & { readonly websocketPort: number }> {
  for (let tries = 0; tries < 20; tries += 1) {
    const front = await startFront(options);
    const { websocketPort } = front;
    if (websocketPort !== null) return { ...front, websocketPort };
    await front.stop();
  }
  throw new Error('no two free ports in a row were found');
}
