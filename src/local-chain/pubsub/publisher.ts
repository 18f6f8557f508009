import { accountNotification } from '../encode/account.ts';
import type { Commitment, LedgerBlock, LedgerListener, TransactionRecord } from '../ledger/types.ts';
import { type AccountView, slotOf, viewAt, viewOf } from '../ledger/views.ts';
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

const GONE: VmAccount = {
  lamports: 0n,
  data: new Uint8Array(0),
  owner: '11111111111111111111111111111111',
  ownerBytes: new Uint8Array(32),
  executable: false,
  rentEpoch: 0n,
};
const RANK: Readonly<Record<string, number>> = { processed: 0, confirmed: 1, finalized: 2 };
/** Accounts that every slot changes. */
const SLOT_SYSVARS = [
  'SysvarC1ock11111111111111111111111111111111',
  'SysvarS1otHashes111111111111111111111111111',
  'SysvarRecentB1ockHashes11111111111111111111',
];

export type Publisher = ReturnType<typeof createPublisher>;

/**
 * Turns what happens in the ledger into notifications, at the times of a node: `processed` ones when the slot is complete, an
 * account once per slot however often it was written, `confirmed` ones when the next slot is open.
 */
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
  let unconfirmed: LedgerBlock | null = null;

  const listener: LedgerListener = {
    slotOpened(slot, parent) {
      each('slot', (_topic, to) => to.notify({ parent, root: slotOf(node.bank, 'finalized'), slot }));
      update({ type: 'createdBank', parent, slot });
      const block = unconfirmed;
      unconfirmed = null;
      if (block === null) return;
      send.block(block, 'confirmed');
      update({ type: 'optimisticConfirmation', slot: block.slot });
    },
    executed: (record) => send.received(record),
    sealed(block) {
      send.block(block, 'processed');
      update({ type: 'frozen', slot: block.slot, stats: frozenStats(block.records) });
      update({ type: 'completed', slot: block.slot });
      unconfirmed = block;
    },
    finalized(block) {
      each('root', (_topic, to) => to.notify(block.slot));
      update({ type: 'root', slot: block.slot });
      send.block(block, 'finalized');
    },
    accountSet(key) {
      for (const commitment of ['processed', 'confirmed', 'finalized'] as const) {
        send.accounts([key], commitment, viewOf(node.bank, commitment));
      }
    },
    rolledBack() {
      unconfirmed = null;
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

  function logs({ signature: id, slot, keys, meta }: TransactionRecord, commitment: Commitment): void {
    // A transaction that was not run has no logs to tell.
    each('logs', (topic, to) => {
      if (topic.commitment !== commitment || meta.logMessages === null) return;
      if (topic.mentions !== null && !keys.includes(topic.mentions)) return;
      to.notify(inSlot(slot, { signature: id, err: meta.err, logs: meta.logMessages ?? [] }));
    });
  }

  function accounts(keys: Iterable<string>, commitment: Commitment, view: AccountView): void {
    for (const key of keys) {
      const context = parseContext(node, view, key);
      each('account', (topic, to) => {
        if (topic.commitment !== commitment || topic.key !== key) return;
        to.notify(inSlot(view.slot, accountNotification(view.get(key) ?? GONE, topic.format, context)));
      });
      each('program', (topic, to) => {
        if (topic.commitment !== commitment) return;
        const account = view.get(key);
        if (account === null || account.owner !== topic.program || !topic.matches(account)) return;
        to.notify(inSlot(view.slot, { pubkey: key, account: accountNotification(account, topic.format, context) }));
      });
    }
  }

  return {
    accounts,
    block(block: LedgerBlock, commitment: Commitment): void {
      const view = viewAt(node.bank, block.slot, true);
      for (const item of block.records) logs(item, commitment);
      accounts(block.written, commitment, view);
      accounts(SLOT_SYSVARS, commitment, view);
      for (const item of block.records) {
        each('signature', (topic, to) => {
          if (topic.commitment === commitment && topic.signature === item.signature) signature(item, to);
        });
      }
    },
    received({ signature: id, slot }: TransactionRecord): void {
      each('signature', (topic, to) => {
        if (topic.announces && topic.signature === id) to.notify(inSlot(slot, 'receivedSignature'));
      });
    },
    /** A client may subscribe after the fact. */
    ifReached(id: string, commitment: Commitment, to: Subscription): void {
      const item = node.bank.state.record(id);
      const reached = statusOf(node, item)?.confirmationStatus;
      if (item !== undefined && reached !== undefined && RANK[reached]! >= RANK[commitment]!) signature(item, to);
    },
  };
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
