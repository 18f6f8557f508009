import type { Sfc32 } from '../../helpers/sfc32.ts';
import type { SmallDisk } from '../../helpers/small-disk.ts';
import { type HostsBed, leading, type Seat } from './harness.ts';
import type { Witness } from './witness.ts';

export const LEASE_MS = 1_000;

/** What a drill works with. */
export interface Field {
  readonly bed: HostsBed;
  readonly draw: Sfc32;
  readonly seats: Seat[];
  /** The one that the database is on; null where none of its own can be mounted. */
  readonly disk: SmallDisk | null;
  readonly witness: Witness;
  /** The one that runs, or was the last to run; monotonic time. */
  drill: { readonly begunMs: number; readonly hurtsStore: boolean };
  /** Notes what was drawn beside the name of the drill. */
  note(drawn: object): void;
}

export type Drill = (field: Field) => Promise<void>;

export const leaderOf = async ({ seats }: Field): Promise<Seat> => {
  for (const seat of seats) if (seat.role === 'indexer' && (await leading(seat).catch(() => null)) === 1) return seat;
  return seats.find(({ role }) => role === 'indexer') as Seat;
};

export const pickOf = ({ draw, seats }: Field): Seat => seats[draw.below(seats.length)] as Seat;
