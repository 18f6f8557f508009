import { EXIT } from '../../src/lib/coded-error.ts';
import { type Clock, CodedError, type Random, type Store } from '../../src/plugin/plugin.ts';
import { DASHBOARD_ERRORS } from './config.ts';
import { hashOf, makeToken, OPERATOR_ROLES, type OperatorRole, tables } from './store.ts';

/** A person, or a program, that logs in with a token of its own. */
export interface NamedOperator {
  readonly name: string;
  readonly role: OperatorRole;
  /** Unix milliseconds. */
  readonly createdAt: number;
}

export interface Operators {
  list(): Promise<readonly NamedOperator[]>;
  /** Returns the token, which is not stored. Errors: DASHBOARD_BAD_OPERATOR, DASHBOARD_OPERATOR_EXISTS. */
  create(operator: { readonly name: string; readonly role: string }): Promise<string>;
  /** Ends its sessions, too. Errors: DASHBOARD_UNKNOWN_OPERATOR. */
  delete(name: string): Promise<void>;
  /** Whose token it is; null: nobody's. */
  find(token: string): Promise<NamedOperator | null>;
}

/** Names stand in the audit log; those of an identity provider contain `@` or `:`. */
export const OPERATOR_NAME = '^[a-z0-9][a-z0-9._-]{0,63}$';
const MAX_OPERATORS = 1_000;

export function createOperators(store: Store, clock: Clock, random: Random): Operators {
  return {
    async list() {
      const rows = await tables(store.read)
        .selectFrom('dashboard_operators')
        .select(['name', 'role', 'created_at'])
        .orderBy('name')
        .execute();
      return rows.map(viewOf);
    },
    async create({ name, role }) {
      if (!new RegExp(OPERATOR_NAME).test(name) || !isRole(role)) throw refused('DASHBOARD_BAD_OPERATOR');
      const token = makeToken(random);
      await store.write(async (tx) => {
        const db = tables(tx.db);
        const names = await db.selectFrom('dashboard_operators').select('name').execute();
        if (names.some((row) => row.name === name)) throw refused('DASHBOARD_OPERATOR_EXISTS');
        if (names.length >= MAX_OPERATORS) throw refused('DASHBOARD_BAD_OPERATOR');
        const row = { name, role, hash: hashOf(token), created_at: clock.now() };
        await db.insertInto('dashboard_operators').values(row).execute();
      });
      return token;
    },
    async delete(name) {
      const { numDeletedRows } = await store.write((tx) =>
        tables(tx.db).deleteFrom('dashboard_operators').where('name', '=', name).executeTakeFirstOrThrow(),
      );
      if (numDeletedRows === 0n) throw refused('DASHBOARD_UNKNOWN_OPERATOR');
    },
    async find(token) {
      // By its hash: how long it takes says nothing about other tokens.
      const row = await tables(store.read)
        .selectFrom('dashboard_operators')
        .select(['name', 'role', 'created_at'])
        .where('hash', '=', hashOf(token))
        .executeTakeFirst();
      return row === undefined ? null : viewOf(row);
    },
  };
}

const isRole = (role: string): role is OperatorRole => OPERATOR_ROLES.some((one) => one === role);

const viewOf = (row: { name: string; role: OperatorRole; created_at: number }): NamedOperator => ({
  name: row.name,
  role: row.role,
  createdAt: row.created_at,
});

const refused = (code: keyof typeof DASHBOARD_ERRORS): CodedError =>
  new CodedError(code, DASHBOARD_ERRORS[code], { exitCode: EXIT.usage });
