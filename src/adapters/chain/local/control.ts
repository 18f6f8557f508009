import { type AccountInput, setAccountInput } from './account-input.ts';
import type { Chain } from './chain.ts';
import type { FaultScript, Faults } from './faults/rule.ts';
import { seal, skip } from './ledger/bank.ts';
import { fork } from './ledger/forks.ts';
import { appendRecorded } from './ledger/recorded.ts';
import type { ForkRequest, RecordedTransaction } from './ledger/types.ts';
import type { Methods } from './rpc/node.ts';
import { configAt, integerAt, keyAt } from './rpc/params.ts';
import { invalidParams } from './rpc/rpc-error.ts';

const ENGINE = 'litesvm 1.5.0';
const MAX_STEPS = 100_000;

export interface ControlParts {
  dropSockets(code?: number): void;
  readonly faults: Faults;
}

/** The `local_*` methods: what tests and the demo do from outside. Never part of a real node, and never proxied. */
export function controlMethods(chain: Chain, { dropSockets, faults }: ControlParts): Methods {
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
    }),
    local_seal(_node, params) {
      for (let left = steps(params); left > 0; left -= 1) seal(bank);
      return bank.state.tip().slot;
    },
    local_skip(_node, params) {
      skip(bank, steps(params));
      return bank.pending.slot;
    },
    local_fork: (_node, params) => fork(bank, configAt(params, 0) as unknown as ForkRequest),
    local_prune(_node, params) {
      bank.state.prune(integerAt(params, 0));
      return bank.state.firstAvailable();
    },
    local_fund: (_node, params) => node.airdrop(keyAt(params, 0), BigInt(integerAt(params, 1))),
    local_setAccount(_node, params) {
      const wire = params[1] === null ? null : configAt(params, 1);
      setAccountInput(bank, keyAt(params, 0), wire === null ? null : accountOf(wire));
      return true;
    },
    local_appendRecorded(_node, params) {
      const record = appendRecorded(bank, configAt(params, 0) as unknown as RecordedTransaction);
      if (chain.sealsEach) seal(bank);
      return { signature: record.signature, slot: record.slot, recorded: true };
    },
    local_setTime(_node, params) {
      time.moveTo(integerAt(params, 0), bank.state.tip().height + 1);
      return true;
    },
    local_faults(_node, params) {
      faults.set(scriptOf(params[0]));
      return true;
    },
    local_clearFaults() {
      faults.clear();
      return true;
    },
    local_faultLog: () => faults.log(),
    local_dropSockets(_node, params) {
      dropSockets(params[0] === undefined ? undefined : integerAt(params, 0));
      return true;
    },
  };
}

function scriptOf(value: unknown): FaultScript {
  const script = Array.isArray(value) ? { rules: value } : configAt([value], 0);
  const rules: unknown = script['rules' as never];
  const isRule = (rule: unknown) => typeof (rule as { action?: unknown } | null)?.action === 'string';
  if (!Array.isArray(rules) || !rules.every(isRule)) throw invalidParams('Invalid params: rules need an action each');
  return script as unknown as FaultScript;
}

function steps(params: readonly unknown[]): number {
  return params[0] === undefined ? 1 : Math.min(MAX_STEPS, integerAt(params, 0));
}

/** `data` is base64 text, or the pair that getAccountInfo answers. */
function accountOf(wire: Readonly<Record<string, unknown>>): AccountInput {
  const data = Array.isArray(wire['data']) ? wire['data'][0] : wire['data'];
  return {
    lamports: integerAt([wire['lamports']], 0),
    data: Buffer.from(String(data ?? ''), 'base64'),
    owner: keyAt([wire['owner']], 0),
    executable: wire['executable'] === true,
  };
}
