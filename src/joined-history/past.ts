import type {
  AddressPage,
  AddressRow,
  ArchiveReader,
  Heads,
  LedgerPlace,
  LedgerReader,
  PastPage,
  PastReader,
} from '../ports/ledger.ts';

/** Slots of one look into the archive. */
const SLOTS_AT_ONCE = 1_000;

interface PastParts {
  /** Null while this process has none. */
  readonly ledger: () => LedgerReader | null;
  /** Null without an archive. */
  readonly archive: () => ArchiveReader | null;
}

/** The ledger, and below its oldest block the archive. A block that is damaged in the ledger is asked of the archive too. */
export function createPastReader({ ledger: ledgerOf, archive: archiveOf }: PastParts): PastReader {
  async function finalSlot(): Promise<number> {
    const ledger = ledgerOf();
    await ledger?.refresh();
    if (ledger !== null && ledger.finalSlot >= 0) return ledger.finalSlot;
    return (await archiveOf()?.ranges())?.at(-1)?.[1] ?? -1;
  }

  /** What the ledger has, else what the archive has. Errors: those of the archive, or of a ledger without one. */
  async function either<T>(
    ofLedger: (ledger: LedgerReader) => Promise<T | null>,
    ofArchive: (archive: ArchiveReader) => Promise<T | null>,
  ): Promise<T | null> {
    const [ledger, archive] = [ledgerOf(), archiveOf()];
    try {
      const found = ledger === null ? null : await ofLedger(ledger);
      if (found !== null || archive === null) return found;
    } catch (error) {
      if (archive === null) throw error;
    }
    return await ofArchive(archive);
  }

  /** The page of the one who knows the slot in which it begins; null when nobody does. */
  async function part(
    query: Parameters<PastReader['page']>[0] & { readonly below: LedgerPlace },
  ): Promise<AddressPage | null> {
    const asked = { ...query, order: 'newest' } as const;
    const covers = ({ from, to }: AddressPage) => from <= query.below.slot && query.below.slot <= to;
    return await either(
      async (ledger) => {
        const page = await ledger.addressPage(asked);
        // Without its oldest slot by now: the retention may have removed rows of the page while it was made.
        return page !== null && covers(page) && ledger.state(page.from) !== 'unknown' ? page : null;
      },
      async (archive) => {
        // An archive that cannot be read has nothing to say here: whoever needs to know what is missing looks for blocks, and fails.
        const page = await archive.addressPage(asked).catch(() => null);
        return page !== null && covers(page) ? page : null;
      },
    );
  }

  async function page(query: Parameters<PastReader['page']>[0]): Promise<PastPage> {
    const rows: AddressRow[] = [];
    let below = endBelow(query.below);
    let inVotes = false;
    let from = below.slot + 1;
    for (;;) {
      if (below.index === Number.POSITIVE_INFINITY) below = belowSkipped(below.slot);
      const left = query.limit - rows.length;
      const isDone = left === 0 || (query.above !== undefined && below.slot < query.above.slot);
      const found = isDone ? null : await part({ ...query, below, limit: left });
      if (found === null) {
        const isIndexed = isDone || from <= query.below.slot || (await hasIndex(query));
        return { rows, isWhole: isDone, from: Math.min(from, below.slot + 1), inVotes, isIndexed };
      }
      rows.push(...found.rows);
      inVotes ||= found.inVotes;
      ({ from } = found);
      if (found.hasMore) return { rows, isWhole: rows.length === query.limit, from, inVotes, isIndexed: true };
      below = { slot: found.from - 1, index: Number.POSITIVE_INFINITY };
    }
  }

  /** Whether the ledger or the archive has an index with this address at all. */
  async function hasIndex({ address, reasons }: Parameters<PastReader['page']>[0]): Promise<boolean> {
    const asked = { address, reasons, order: 'newest', limit: 1 } as const;
    if ((await ledgerOf()?.addressPage(asked)) != null) return true;
    return (await archiveOf()?.addressPage(asked)) != null;
  }

  async function newestBelow(slot: number): Promise<number> {
    const held = ledgerOf()?.newest(slot) ?? -1;
    if (held === slot) return held;
    const ranges = (await archiveOf()?.ranges()) ?? [];
    const range = ranges.findLast(([from]) => from <= slot);
    if (range === undefined || Math.min(range[1], slot) <= held) return held;
    // The archive has no look-up of the newest block: the slots of a range from its end down.
    const top = Math.min(range[1], slot);
    for (let to = top; to > held && to >= range[0]; to -= SLOTS_AT_ONCE) {
      const { blocks } = await archiveOf()!.states(Math.max(range[0], held + 1, to - SLOTS_AT_ONCE + 1), to);
      if (blocks.length > 0) return blocks.at(-1)!;
    }
    return held;
  }

  async function heads(): Promise<Heads> {
    const final = await finalSlot();
    return { finalSlot: final, newestSlot: Math.max(final, ledgerOf()?.newest() ?? -1) };
  }

  async function knownFrom(query: Parameters<PastReader['knownFrom']>[0], slot: number): Promise<number> {
    for (let from = slot + 1; ; ) {
      const below = belowSkipped(from - 1);
      const found = await part({ ...query, below, limit: 1 });
      if (found?.inVotes === true) return slot + 1;
      if (found === null) return Math.min(from, below.slot + 1);
      from = found.from;
    }
  }

  /** The end of the newest slot from this one down that may have transactions. */
  function belowSkipped(slot: number): LedgerPlace {
    let below = slot;
    // Between the oldest block of the ledger and its parent there is nothing, whether or not the archive knows it.
    while (ledgerOf()?.state(below) === 'skipped') below -= 1;
    return { slot: below, index: Number.POSITIVE_INFINITY };
  }

  return {
    finalSlot,
    heads,
    newestBelow,
    page,
    knownFrom,
    async states(from, to) {
      const [ledger, archive] = [ledgerOf(), archiveOf()];
      const known = ledger?.states(from, to) ?? { blocks: [], unknown: slotsOf(from, to) };
      const [first, last] = [known.unknown[0], known.unknown.at(-1)];
      if (archive === null || first === undefined || last === undefined) return known;
      const older = await archive.states(first, last);
      const [blocks, unknown] = [new Set(older.blocks), new Set(older.unknown)];
      return {
        blocks: [...known.blocks, ...known.unknown.filter((slot) => blocks.has(slot))].sort((a, b) => a - b),
        unknown: known.unknown.filter((slot) => unknown.has(slot)),
      };
    },
    header: (slot) =>
      either(
        (ledger) => ledger.header(slot),
        (one) => one.header(slot),
      ),
    text: (slot) =>
      either(
        (ledger) => ledger.text(slot),
        (one) => one.text(slot),
      ),
    find: (signature) =>
      either(
        (ledger) => ledger.find(signature),
        (one) => one.find(signature),
      ),
    transaction: (place) =>
      either(
        (ledger) => ledger.transaction(place),
        (one) => one.transaction(place),
      ),
  };
}

/** A place before the first transaction of a block is the end of the slot below. */
const endBelow = (place: LedgerPlace): LedgerPlace =>
  place.index < 0 ? { slot: place.slot - 1, index: Number.POSITIVE_INFINITY } : place;

const slotsOf = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);
