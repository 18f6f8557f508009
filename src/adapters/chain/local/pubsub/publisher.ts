import { accountJson } from '../encode/account.ts';
import type { Commitment, LedgerListener, TransactionRecord } from '../ledger/types.ts';
import { type AccountView, slotOf, viewOf } from '../ledger/views.ts';
import { parseContext } from '../rpc/methods-accounts.ts';
import { statusOf } from '../rpc/methods-blocks.ts';
import type { LocalNode } from '../rpc/node.ts';
import type { VmAccount } from '../vm/vm.ts';
import type { Topic } from './subscription.ts';

/** One live subscription; `notify` gets the `result` of the notification. */
export interface Subscription {
  readonly topic: Topic;
  notify(result: unknown): void;
  /** Ends it from this side (a signature that has been reached). */
  finish(): void;
}

const GONE: Omit<VmAccount, 'ownerBytes'> = {
  lamports: 0n,
  data: new Uint8Array(0),
  owner: '11111111111111111111111111111111',
  executable: false,
  rentEpoch: 0n,
};
const RANK: Readonly<Record<string, number>> = { processed: 0, confirmed: 1, finalized: 2 };

export type Publisher = ReturnType<typeof createPublisher>;

/** Turns what happens in the ledger into notifications, in the order of the ledger. */
export function createPublisher(node: LocalNode) {
  const subscriptions = new Set<Subscription>();
  const each = <K extends Topic['kind']>(
    kind: K,
    run: (topic: Extract<Topic, { kind: K }>, subscription: Subscription) => void,
  ): void => {
    for (const subscription of subscriptions) {
      if (subscription.topic.kind === kind) run(subscription.topic as Extract<Topic, { kind: K }>, subscription);
    }
  };
  const send = createSender(node, each);
  const timestamp = () => node.bank.pending.time * 1000;
  const update = (fields: object) =>
    each('slotsUpdates', (_topic, to) => to.notify({ ...fields, timestamp: timestamp() }));

  const listener: LedgerListener = {
    slotOpened(slot, parent) {
      each('slot', (_topic, to) => to.notify({ parent, root: slotOf(node.bank, 'finalized'), slot }));
      update({ type: 'createdBank', parent, slot });
    },
    executed(record, written) {
      send.record(record, 'processed');
      send.accounts(written, 'processed', viewOf(node.bank, 'processed'));
    },
    sealed(block) {
      update({ type: 'frozen', slot: block.slot, stats: frozenStats(block.records) });
      for (const record of block.records) send.record(record, 'confirmed');
      send.accounts(block.written, 'confirmed', viewOf(node.bank, 'confirmed'));
      update({ type: 'optimisticConfirmation', slot: block.slot });
    },
    finalized(block) {
      each('root', (_topic, to) => to.notify(block.slot));
      update({ type: 'root', slot: block.slot });
      for (const record of block.records) send.record(record, 'finalized');
      send.accounts(block.written, 'finalized', viewOf(node.bank, 'finalized'));
    },
    accountSet(key) {
      for (const commitment of ['processed', 'confirmed', 'finalized'] as const) {
        send.accounts([key], commitment, viewOf(node.bank, commitment));
      }
    },
  };
  return {
    listener,
    add(subscription: Subscription): void {
      subscriptions.add(subscription);
      const { topic } = subscription;
      if (topic.kind === 'signature') send.ifReached(topic.signature, topic.commitment, subscription);
    },
    remove: (subscription: Subscription): void => void subscriptions.delete(subscription),
  };
}

type Each = <K extends Topic['kind']>(
  kind: K,
  run: (topic: Extract<Topic, { kind: K }>, subscription: Subscription) => void,
) => void;

function createSender(node: LocalNode, each: Each) {
  const inSlot = (slot: number, value: unknown) => ({ context: { slot }, value });
  function signature(record: TransactionRecord, to: Subscription): void {
    to.notify(inSlot(record.slot, { err: record.meta.err }));
    to.finish();
  }
  return {
    record(record: TransactionRecord, commitment: Commitment): void {
      const { signature: id, slot, keys, meta } = record;
      each('logs', (topic, to) => {
        if (topic.commitment !== commitment) return;
        if (topic.mentions !== null && !keys.includes(topic.mentions)) return;
        to.notify(inSlot(slot, { signature: id, err: meta.err, logs: meta.logMessages ?? [] }));
      });
      each('signature', (topic, to) => {
        if (topic.commitment === commitment && topic.signature === id) signature(record, to);
      });
    },
    ifReached(id: string, commitment: Commitment, to: Subscription): void {
      const record = node.bank.state.record(id);
      const reached = statusOf(node, record)?.confirmationStatus;
      if (record !== undefined && reached !== undefined && RANK[reached]! >= RANK[commitment]!) signature(record, to);
    },
    accounts(keys: Iterable<string>, commitment: Commitment, view: AccountView): void {
      for (const key of keys) oneAccount(key, commitment, view);
    },
  };

  function oneAccount(key: string, commitment: Commitment, view: AccountView): void {
    const context = parseContext(node, view);
    each('account', (topic, to) => {
      if (topic.commitment !== commitment || topic.key !== key) return;
      const account = view.get(key) ?? { ...GONE, ownerBytes: new Uint8Array(32) };
      to.notify(inSlot(view.slot, accountJson(account, topic.format, context)));
    });
    each('program', (topic, to) => {
      if (topic.commitment !== commitment) return;
      const account = view.get(key);
      if (account === null || account.owner !== topic.program || !topic.matches(account)) return;
      to.notify(inSlot(view.slot, { pubkey: key, account: accountJson(account, topic.format, context) }));
    });
  }
}

function frozenStats(records: readonly TransactionRecord[]) {
  const failed = records.filter((record) => record.meta.err !== null).length;
  return {
    numTransactionEntries: records.length,
    numSuccessfulTransactions: records.length - failed,
    numFailedTransactions: failed,
    maxTransactionsPerEntry: records.length,
  };
}
