/**
 * A state machine as data: for each event, the states in which it may come, and the state to which it leads from there. In any other state it
 * changes nothing. Machines run on their tables: a test of each makes every event happen in every state, and the README of its folder shows the table.
 */
export type Transitions<State extends string, Event extends string> = {
  readonly [E in Event]: { readonly [S in State]?: State };
};

/** The state to which an event leads; null: it may not come in this one, and changes nothing. */
export function stateAfter<Table extends Transitions<string, string>, State extends string>(
  table: Table,
  event: keyof Table & string,
  state: State,
): State | null {
  return ((table[event] as { readonly [state: string]: string })[state] as State | undefined) ?? null;
}

/** An event that leads to one state, whichever the state before. */
export interface Change<From extends string, To extends string> {
  readonly from: readonly From[];
  readonly to: To;
}

/** The states in which such an event may come, and the one to which it leads. */
export function changeOf<Row extends { readonly [state: string]: string }>(
  row: Row,
): Change<keyof Row & string, Row[keyof Row]> {
  const [to, ...others] = new Set(Object.values(row)) as Set<Row[keyof Row]>;
  if (to === undefined || others.length > 0) throw new TypeError('the event does not lead to one state');
  return { from: Object.keys(row), to };
}
