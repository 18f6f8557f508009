/** A history that PostgreSQL itself keeps of what daemons commit: it goes with the data through crashes, and to a replica. */

export interface Place {
  readonly slot: number;
  readonly blockhash: string;
}

interface AnyWrite {
  /** Grows in the order of the writes; of one row, and of one cursor, that is the order of the commits. */
  readonly id: number;
  readonly tx: number;
  /** Unix ms of the server, which is on this machine. */
  readonly at: number;
  /** The seat whose connection wrote it, whatever it takes itself for. */
  readonly process: string;
  readonly op: 'INSERT' | 'UPDATE' | 'DELETE';
}

/** Of the chain's own cursor, with the leader that the store knew at that moment. */
export interface CursorWrite extends AnyWrite {
  readonly what: 'cursor';
  readonly from: Place | null;
  readonly to: Place | null;
  readonly epoch: number | null;
  readonly leader: string | null;
}

export interface HeaderWrite extends AnyWrite {
  readonly what: 'header';
  readonly place: Place;
  readonly parent: Place;
}

/** A row of the outbox that came, went, or changed its state or its attempts. */
export interface DeliveryWrite extends AnyWrite {
  readonly what: 'delivery';
  readonly key: string;
  readonly from: DeliveryState | null;
  readonly to: DeliveryState | null;
}

export interface DeliveryState {
  readonly state: string;
  readonly attempts: number;
}

/** A process has written what it counted until `begunAt`, unix ms of the server too. */
export interface UsageWrite extends AnyWrite {
  readonly what: 'usage';
  readonly begunAt: number;
}

export type Write = CursorWrite | HeaderWrite | DeliveryWrite | UsageWrite;

export interface WriteHistory {
  /** Once the tables are there. */
  install(): Promise<void>;
  /** What was committed since the last time. */
  read(): Promise<readonly Write[]>;
}

type Query = (text: string) => Promise<readonly Record<string, unknown>[]>;

const TABLES = `
  create schema drills;
  create table drills.writes (id bigint generated always as identity primary key, tx bigint not null, at float8 not null,
    process text not null, what text not null, op text not null, facts jsonb not null);
  create function drills.note(what text, op text, facts jsonb) returns void language sql as $$
    insert into drills.writes (tx, at, process, what, op, facts) values (pg_current_xact_id()::text::bigint,
      extract(epoch from clock_timestamp()) * 1000, current_setting('application_name'), what, op, facts) $$;`;

const place = (row: string) =>
  `case when ${row}.slot is not null then jsonb_build_object('slot', ${row}.slot, 'blockhash', ${row}.blockhash) end`;
const state = (row: string) =>
  `case when ${row}.state is not null then jsonb_build_object('state', ${row}.state, 'attempts', ${row}.attempts) end`;

const CURSORS = `
  create function drills.cursors() returns trigger language plpgsql as $$
    declare lead public.follow_leaders;
    begin
      if coalesce(new.processor, old.processor) <> '*' then return null; end if;
      select * into lead from public.follow_leaders where chain = coalesce(new.chain, old.chain);
      perform drills.note('cursor', tg_op, jsonb_build_object('from', ${place('old')}, 'to', ${place('new')},
        'epoch', lead.epoch, 'leader', lead.holder));
      return null;
    end $$;
  create trigger drills after insert or update or delete on public.follow_cursors
    for each row execute function drills.cursors();`;

const HEADERS = `
  create function drills.headers() returns trigger language plpgsql as $$
    declare one public.follow_headers := coalesce(new, old);
    begin
      perform drills.note('header', tg_op, jsonb_build_object('place', ${place('one')},
        'parent', jsonb_build_object('slot', one.parent_slot, 'blockhash', one.previous_blockhash)));
      return null;
    end $$;
  create trigger drills after insert or update or delete on public.follow_headers
    for each row execute function drills.headers();`;

const OUTBOX = `
  create function drills.outbox() returns trigger language plpgsql as $$
    begin
      if coalesce(new.kind, old.kind) <> 'webhooks.deliver' then return null; end if;
      if tg_op = 'UPDATE' and (old.key, old.state, old.attempts) = (new.key, new.state, new.attempts) then return null; end if;
      perform drills.note('delivery', tg_op, jsonb_build_object('key', coalesce(new.key, old.key),
        'from', ${state('old')}, 'to', ${state('new')}));
      return null;
    end $$;
  create trigger drills after insert or update or delete on public.outbox for each row execute function drills.outbox();`;

const USAGE = `
  create function drills.usage() returns trigger language plpgsql as $$
    begin
      perform drills.note('usage', tg_op, jsonb_build_object('begunAt', extract(epoch from transaction_timestamp()) * 1000));
      return null;
    end $$;
  create trigger drills after insert or update on public.usage_writers for each row execute function drills.usage();`;

/** More than what is written while a transaction may run: what it writes shows behind what is newer. */
const OVERLAP = 2_000;

/** Not by transactions: after a crash their numbers may be given again. */
const READ = (fromId: number) => `
  select id::float8 as id, tx::float8 as tx, at, process, what, op, facts from drills.writes where id > ${fromId} order by id`;

export function createWriteHistory(query: Query): WriteHistory {
  let known = new Set<number>();
  let newest = 0;
  return {
    async install() {
      await query(`${TABLES}${CURSORS}${HEADERS}${OUTBOX}${USAGE}`);
    },
    async read() {
      const rows = await query(READ(newest - OVERLAP));
      const fresh = rows.filter(({ id }) => !known.has(Number(id)));
      known = new Set(rows.map(({ id }) => Number(id)));
      newest = Math.max(newest, ...known);
      return fresh.map(({ facts, ...row }) => ({ ...row, ...(facts as object) }) as unknown as Write);
    },
  };
}
