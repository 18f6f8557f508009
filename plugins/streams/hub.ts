/**
 * Hands the updates of released blocks to the subscriptions. Equal subscriptions form a group: a block is matched once for each group,
 * and its frames are joined once for all readers of it.
 */
import type { BlockListener } from '../../src/plugin/host.ts';
import type { BlockHeader, ChainBlock, Clock, Metrics } from '../../src/plugin/plugin.ts';
import type { Filters, Labels, Match } from './filters.ts';
import { type Encoding, frame, frameBytes, writeFrame } from './grpc-server.ts';
import { type BlockUpdates, createBlockUpdates, encodeLabels, encodeSlot, SLOT_STATUS } from './wire/updates.ts';

/** Frames that are written together. */
export interface Batch {
  readonly bytes: Buffer;
  readonly updates: number;
  /** Size of the messages before compression: what is charged. */
  readonly messageBytes: number;
}

export interface Reader {
  send(batch: Batch): void;
  /** The group would hold more for it than is allowed. */
  lagged(): void;
}

export interface HubOptions {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Bytes of updates that one group may hold until their blocks are final. */
  readonly limits: { readonly maxPendingBytes: number };
}

export interface Subscription {
  /** The name under which equal subscriptions are shared; null: never shared. */
  readonly key: string | null;
  readonly filters: Filters;
  readonly encoding: Encoding;
}

export interface Hub extends Omit<BlockListener, 'chain'> {
  /** The returned function ends it; at `finalized`, blocks that were already released are still sent when they become final. */
  join(subscription: Subscription, reader: Reader): (how: 'at-once' | 'after-released') => void;
}

/** Frames are joined to buffers of about this size. */
const BATCH_BYTES = 131_072;
/** Released blocks that are not final; more means that finality stands still, and the oldest are forgotten. */
const MAX_OPEN_BLOCKS = 16_384;

/** Updates of a block that wait for its finality. */
interface Pending {
  readonly slot: number;
  readonly batches: readonly Batch[];
  readonly bytes: number;
}

interface Member {
  readonly reader: Reader;
  /** Slots from which and up to which it gets content. */
  readonly from: number;
  until: number;
}

interface Group {
  readonly name: string | null;
  readonly filters: Filters;
  readonly encoding: Encoding;
  readonly members: Set<Member>;
  pending: Pending[];
  pendingBytes: number;
}

export function createHub({ clock, metrics, limits }: HubOptions): Hub {
  const groups = new Set<Group>();
  const named = new Map<string, Group>();
  /** Released and not final yet, ascending. */
  let open: BlockHeader[] = [];
  const sent = metrics.counter('updates_total', 'updates of blocks, transactions and slots that were sent to readers');
  metrics.observe('groups', 'different subscriptions', () => groups.size);
  metrics.observe('pending_bytes', 'updates that wait until their block is final', () =>
    [...groups].reduce((sum, group) => sum + group.pendingBytes, 0),
  );

  /** `isContent`: of blocks that were released before a member joined it gets nothing. */
  function deliver(group: Group, batches: readonly Batch[], slot: number, isContent: boolean): void {
    for (const member of [...group.members]) {
      if (slot > member.until || (isContent && slot < member.from)) continue;
      for (const batch of batches) {
        sent.add(batch.updates);
        member.reader.send(batch);
      }
    }
  }

  /** A status of a slot is news for all levels. */
  function tellSlot(group: Group, header: BlockHeader, status: number, deadError?: string): void {
    const labels = group.filters.matchSlot(status);
    if (labels === null) return;
    const { slot, parentSlot: parent } = header;
    const body = encodeSlot({ slot, parent, status, ...(deadError === undefined ? {} : { deadError }) }, clock.now());
    // A reader of final blocks that has not got a block needs not know that it is final.
    const isContent = status === SLOT_STATUS.finalized && group.filters.level === 'finalized';
    deliver(group, join([{ head: headOf(labels), body }], group.encoding), slot, isContent);
  }

  function contentFor(group: Group, block: ChainBlock, updates: BlockUpdates): readonly Batch[] {
    const matches = group.filters.match(block);
    const parts = matches.map((match) => ({ head: headOf(match.labels), body: bodyOf(match, updates) }));
    return join(parts, group.encoding);
  }

  function hold(group: Group, slot: number, batches: readonly Batch[]): void {
    if (batches.length === 0) return;
    const bytes = batches.reduce((sum, batch) => sum + batch.bytes.length, 0);
    group.pending.push({ slot, batches, bytes });
    group.pendingBytes += bytes;
    if (group.pendingBytes <= limits.maxPendingBytes) return;
    remove(group);
    for (const { reader } of group.members) reader.lagged();
  }

  function remove(group: Group): void {
    groups.delete(group);
    if (group.name !== null && named.get(group.name) === group) named.delete(group.name);
  }

  function dropPending(group: Group, isGone: (slot: number) => boolean): void {
    group.pending = group.pending.filter(({ slot }) => !isGone(slot));
    group.pendingBytes = group.pending.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  return {
    released(block) {
      // After a commit whose answer was lost a block may be reported again.
      if (open.some(({ slot, blockhash }) => slot === block.slot && blockhash === block.blockhash)) return;
      const { slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime } = block;
      const header = { slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime };
      open.push(header);
      if (open.length > MAX_OPEN_BLOCKS) open.shift();
      const updates = createBlockUpdates(block, clock.now());
      for (const group of [...groups]) {
        const batches = contentFor(group, block, updates);
        if (group.filters.level === 'finalized') hold(group, slot, batches);
        else deliver(group, batches, slot, true);
        tellSlot(group, header, SLOT_STATUS.processed);
        tellSlot(group, header, SLOT_STATUS.confirmed);
      }
    },
    reverted(headers) {
      const gone = new Map(headers.map((header) => [header.slot, header]));
      open = open.filter(({ slot }) => !gone.has(slot));
      for (const group of groups) {
        dropPending(group, (slot) => gone.has(slot));
        for (const header of gone.values())
          tellSlot(group, header, SLOT_STATUS.dead, 'the slot is on a fork that was left');
      }
    },
    finalized(upTo) {
      const final = open.filter(({ slot }) => slot <= upTo);
      if (final.length === 0) return;
      open = open.filter(({ slot }) => slot > upTo);
      for (const group of [...groups]) {
        const pending = new Map(group.pending.map((one) => [one.slot, one.batches]));
        for (const header of final) {
          deliver(group, pending.get(header.slot) ?? [], header.slot, true);
          tellSlot(group, header, SLOT_STATUS.finalized);
        }
        dropPending(group, (slot) => slot <= upTo);
        for (const member of group.members) if (member.until <= upTo) group.members.delete(member);
        if (group.members.size === 0) remove(group);
      }
    },
    join({ key, filters, encoding }, reader) {
      const name = key === null ? null : `${encoding} ${key}`;
      let group = name === null ? undefined : named.get(name);
      if (group === undefined) {
        group = { name, filters, encoding, members: new Set(), pending: [], pendingBytes: 0 };
        groups.add(group);
        if (name !== null) named.set(name, group);
      }
      const own = group;
      const newest = open.at(-1)?.slot ?? -1;
      const member: Member = { reader, from: newest + 1, until: Number.POSITIVE_INFINITY };
      own.members.add(member);
      return (how) => {
        const last = open.at(-1)?.slot;
        if (how === 'after-released' && filters.level === 'finalized' && last !== undefined && last >= member.from)
          member.until = last;
        else own.members.delete(member);
        if (own.members.size === 0) remove(own);
      };
    },
  };
}

function bodyOf(match: Match, updates: BlockUpdates): Buffer {
  switch (match.kind) {
    case 'transaction':
      return updates.transaction(match.index);
    case 'transactionStatus':
      return updates.transactionStatus(match.index);
    case 'block':
      return updates.block(match.content);
    case 'blockMeta':
      return updates.blockMeta();
  }
}

const heads = new WeakMap<Labels, Buffer>();

function headOf(labels: Labels): Buffer {
  let head = heads.get(labels);
  if (head === undefined) {
    head = encodeLabels(labels);
    heads.set(labels, head);
  }
  return head;
}

interface Part {
  readonly head: Buffer;
  readonly body: Buffer;
}

/** Few large writes cost far less than many small ones. */
function join(parts: readonly Part[], encoding: Encoding): readonly Batch[] {
  if (encoding !== 'identity') return joinPacked(parts, encoding);
  const batches: Batch[] = [];
  for (let from = 0; from < parts.length; ) {
    let size = 0;
    let to = from;
    while (to < parts.length && (to === from || size < BATCH_BYTES)) {
      size += frameBytes(parts[to]!.head, parts[to]!.body);
      to += 1;
    }
    const bytes = Buffer.allocUnsafeSlow(size);
    let at = 0;
    for (let part = from; part < to; part++) at = writeFrame(bytes, at, parts[part]!.head, parts[part]!.body);
    batches.push({ bytes, updates: to - from, messageBytes: size });
    from = to;
  }
  return batches;
}

function joinPacked(parts: readonly Part[], encoding: Encoding): readonly Batch[] {
  const batches: Batch[] = [];
  let frames: Buffer[] = [];
  let size = 0;
  let messageBytes = 0;
  const flush = () => {
    if (frames.length === 0) return;
    batches.push({ bytes: Buffer.concat(frames), updates: frames.length, messageBytes });
    frames = [];
    size = 0;
    messageBytes = 0;
  };
  for (const { head, body } of parts) {
    const framed = frame(head, body, encoding);
    frames.push(framed);
    size += framed.length;
    messageBytes += frameBytes(head, body);
    if (size >= BATCH_BYTES) flush();
  }
  flush();
  return batches;
}
