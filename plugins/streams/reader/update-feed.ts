import type { ChainBlock, Clock } from '../../../src/plugin/plugin.ts';
import type { Encoding } from '../codecs.ts';
import type { FilterLabels, FilterMatch, Filters } from '../filters.ts';
import { frame, frameBytes, writeGrpcFrame } from '../grpc-server.ts';
import type { Feed, UpdateBatch } from '../hub/index.ts';
import { type BlockUpdates, createBlockUpdates, encodeLabels, encodeSlot, SLOT_STATUS } from '../wire/updates.ts';

/** Frames are joined to buffers of about this size. */
const BATCH_BYTES = 131_072;

/** The updates of a subscription: frames of `geyser.Geyser` with the labels of the filters that matched. */
export function createUpdateFeed(filters: Filters, encoding: Encoding, clock: Clock): Feed {
  return {
    level: filters.level,
    content(block) {
      const matches = filters.match(block);
      const updates = updatesOf(block, clock);
      return join(
        matches.map((match) => ({ head: headOf(match.labels), body: bodyOf(match, updates) })),
        encoding,
      );
    },
    slot({ slot, parentSlot: parent, blockhash }, status) {
      const labels = filters.matchSlot(status);
      if (labels === null) return [];
      const dead = status === SLOT_STATUS.dead ? { deadError: 'the slot is on a fork that was left' } : {};
      const body = encodeSlot({ slot, parent, blockhash, status, ...dead }, clock.now());
      return join([{ head: headOf(labels), body }], encoding);
    },
  };
}

const known = new WeakMap<ChainBlock, BlockUpdates>();

/** The updates of a block, shared by all subscriptions so that each is encoded once. */
function updatesOf(block: ChainBlock, clock: Clock): BlockUpdates {
  let updates = known.get(block);
  if (updates === undefined) {
    updates = createBlockUpdates(block, clock.now());
    known.set(block, updates);
  }
  return updates;
}

function bodyOf(match: FilterMatch, updates: BlockUpdates): Buffer {
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

const heads = new WeakMap<FilterLabels, Buffer>();

function headOf(labels: FilterLabels): Buffer {
  let head = heads.get(labels);
  if (head === undefined) {
    head = encodeLabels(labels);
    heads.set(labels, head);
  }
  return head;
}

interface FramePart {
  readonly head: Buffer;
  readonly body: Buffer;
}

/** Few large writes cost far less than many small ones. */
function join(parts: readonly FramePart[], encoding: Encoding): readonly UpdateBatch[] {
  if (encoding !== 'identity') return joinPacked(parts, encoding);
  const batches: UpdateBatch[] = [];
  for (let from = 0; from < parts.length; ) {
    let size = 0;
    let to = from;
    while (to < parts.length && (to === from || size < BATCH_BYTES)) {
      size += frameBytes(parts[to]!.head, parts[to]!.body);
      to += 1;
    }
    const bytes = Buffer.allocUnsafeSlow(size);
    let at = 0;
    for (let part = from; part < to; part++) at = writeGrpcFrame(bytes, at, parts[part]!.head, parts[part]!.body);
    batches.push({ bytes, updates: to - from, messageBytes: size });
    from = to;
  }
  return batches;
}

function joinPacked(parts: readonly FramePart[], encoding: Encoding): readonly UpdateBatch[] {
  const batches: UpdateBatch[] = [];
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
