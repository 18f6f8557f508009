/** What a bus sends over a line. */
export interface Parcel {
  readonly topic: string;
  readonly message: unknown;
}

/** A way to other buses. It never gives back what was sent over it, and loses what it cannot carry. */
export interface Line {
  send(parcel: Parcel): void;
  /** Called once, before anything is sent. */
  onParcel(take: (parcel: Parcel) => void): void;
  close(): Promise<void>;
}
