import type { Chain } from './chain.ts';
import { pubkey } from './encode/params.ts';
import { invalidParams } from './encode/rpc-error.ts';
import { type AccountInput, seal, setAccountInput, skip } from './ledger/bank.ts';
import { fork } from './ledger/forks.ts';
import { appendRecorded } from './ledger/recorded.ts';
import type { ForkRequest, RecordedTransaction } from './ledger/types.ts';
import type { Methods } from './rpc/node.ts';

const ENGINE = 'litesvm 1.5.0';
const MAX_STEPS = 100_000;

export interface ControlParts {
  dropSockets(code?: number): void;
  rpcUrl(): string;
}

/** The `local_*` methods, for tests and the demo. Not part of a real node, and never proxied. */
export function controlMethods(chain: Chain, { dropSockets, rpcUrl }: ControlParts): Methods {
  const { bank, node, time, hasLight } = chain;
  return {
    local_info: () => ({
      kind: 'local',
      cluster: 'local',
      engine: ENGINE,
      genesisHash: node.genesisHash,
      fixtures: bank.fixtures,
      light: hasLight,
      slot: bank.state.tip().slot,
      rpcUrl: rpcUrl(),
    }),
    local_seal(_node, sent) {
      const params = listOf(sent);
      for (let left = steps(params); left > 0; left -= 1) seal(bank);
      return bank.state.tip().slot;
    },
    local_skip(_node, sent) {
      const params = listOf(sent);
      skip(bank, steps(params));
      return bank.pending.slot;
    },
    local_fork: (_node, sent) => fork(bank, configAt(listOf(sent), 0) as unknown as ForkRequest),
    local_prune(_node, sent) {
      bank.state.prune(integerAt(listOf(sent), 0));
      return bank.state.firstAvailable();
    },
    local_fund(_node, sent) {
      const params = listOf(sent);
      return node.airdrop(keyAt(params, 0), BigInt(integerAt(params, 1)));
    },
    local_setAccount(_node, sent) {
      const params = listOf(sent);
      const wire = params[1] === null ? null : configAt(params, 1);
      setAccountInput(bank, keyAt(params, 0), wire === null ? null : accountOf(wire));
      return true;
    },
    local_appendRecorded(_node, sent) {
      const params = listOf(sent);
      const record = appendRecorded(bank, configAt(params, 0) as unknown as RecordedTransaction);
      if (chain.sealsEach) seal(bank);
      return { signature: record.signature, slot: record.slot, recorded: true };
    },
    local_setTime(_node, sent) {
      const params = listOf(sent);
      time.moveTo(integerAt(params, 0), bank.state.tip().height + 1);
      return true;
    },
    local_dropSockets(_node, sent) {
      const params = listOf(sent);
      dropSockets(params[0] === undefined ? undefined : integerAt(params, 0));
      return true;
    },
  };
}

function listOf(params: unknown): readonly unknown[] {
  if (params === undefined) return [];
  if (!Array.isArray(params)) throw invalidParams('Invalid params: expected a list');
  return params;
}

/** The object at `index`; {} when it is absent. */
function configAt(params: readonly unknown[], index: number): Readonly<Record<string, unknown>> {
  const value = params[index] ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) throw invalidParams('Invalid params: expected an object');
  return value as Record<string, unknown>;
}

function keyAt(params: readonly unknown[], index: number): string {
  const value = params[index];
  if (typeof value !== 'string') throw invalidParams('Invalid params: expected a base58 key');
  return pubkey(value);
}

function integerAt(params: readonly unknown[], index: number): number {
  const value = params[index];
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    throw invalidParams('Invalid params: expected a non-negative integer');
  }
  return value as number;
}

function steps(params: readonly unknown[]): number {
  return params[0] === undefined ? 1 : Math.min(MAX_STEPS, integerAt(params, 0));
}

/** `data` is base64 text, or the pair in responses of getAccountInfo. */
function accountOf(wire: Readonly<Record<string, unknown>>): AccountInput {
  const data = Array.isArray(wire['data']) ? wire['data'][0] : wire['data'];
  return {
    lamports: integerAt([wire['lamports']], 0),
    data: Buffer.from(String(data ?? ''), 'base64'),
    owner: keyAt([wire['owner']], 0),
    executable: wire['executable'] === true,
  };
}
