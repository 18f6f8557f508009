/** What the plugin `shadow` reports, to its command and to the pages of the operator. */

export interface MethodCounts {
  readonly method: string;
  readonly product: string;
  readonly compared: number;
  readonly equal: number;
  readonly explained: number;
  readonly different: number;
  /** Requests that the reference did not answer; not among the compared ones. */
  readonly unanswered: number;
}

export interface DifferenceGroup {
  readonly id: string;
  readonly method: string;
  readonly product: string;
  readonly path: string;
  readonly kind: string;
  /** Null: unexplained. */
  readonly reason: string | null;
  /** Answers with it since it was first seen. */
  readonly count: number;
  /** Unix milliseconds. */
  readonly firstAt: number;
  readonly lastAt: number;
}

export interface ShadowReport {
  readonly days: number;
  readonly compared: number;
  readonly equal: number;
  readonly explained: number;
  readonly different: number;
  readonly unanswered: number;
  /** Share of the compared answers that differ without an explanation; 0 if none was compared. */
  readonly differentShare: number;
  readonly spentToday: { readonly requests: number; readonly credits: number; readonly bytes: number };
  readonly methods: readonly MethodCounts[];
  /** Unexplained ones first, then by count. */
  readonly groups: readonly DifferenceGroup[];
}
