/** The filter of a subscription: what it may contain, and which instructions it wants. */
import { decode32 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import type { ParsedFilter, ReadFilter } from '../../src/ports/parsed-transactions.ts';
import type { ParsedInstruction } from '../../src/solana/idl/parse-transaction.ts';

const FILTER_MEMBERS = ['programs', 'instructionNames', 'accounts', 'includeFailed', 'includeCpi'];
const MAX_PROGRAMS = 10;
const MAX_NAMES = 50;
const MAX_INCLUDE = 100;
const MAX_ROLES = 20;
/** Longer names are in no interface. */
const MAX_NAME = 128;

class Refusal extends Error {
  readonly isLimit: boolean;
  constructor(problem: string, isLimit = false) {
    super(problem);
    this.isLimit = isLimit;
  }
}

export function readFilter(value: unknown): ReadFilter {
  try {
    return { filter: filterOf(value) };
  } catch (error) {
    if (error instanceof Refusal) return { problem: error.message, isLimit: error.isLimit };
    throw error;
  }
}

function filterOf(value: unknown): ParsedFilter {
  const given = membersOf(value, 'filter', FILTER_MEMBERS);
  const accounts =
    given['accounts'] === undefined ? {} : membersOf(given['accounts'], 'accounts', ['include', 'roles']);
  const filter = {
    programs: addressesOf(given['programs'], 'programs', MAX_PROGRAMS),
    instructionNames: listOf(given['instructionNames'], 'instructionNames', MAX_NAMES).map((name, at) => {
      if (typeof name !== 'string' || name.length > MAX_NAME || plainName(name) === '')
        throw new Refusal(`invalid name at instructionNames[${at}]`);
      return name;
    }),
    include: addressesOf(accounts['include'], 'accounts.include', MAX_INCLUDE),
    roles: rolesOf(accounts['roles']),
    includeFailed: flagOf(given['includeFailed'], 'includeFailed', false),
    includeCpi: flagOf(given['includeCpi'], 'includeCpi', true),
  };
  if (filter.programs.length + filter.include.length === 0)
    throw new Refusal('the filter must have `programs` or `accounts.include`');
  return filter;
}

/** An object of known members, none of them null: clients leave out what they do not want. */
function membersOf(value: unknown, what: string, names: readonly string[]): Readonly<Record<string, unknown>> {
  if (!isPlainObject(value)) throw new Refusal(`${what} must be an object`);
  for (const [name, member] of Object.entries(value)) {
    if (!names.includes(name)) throw new Refusal(`unknown field \`${name.slice(0, 64)}\` in ${what}`);
    if (member === null) throw new Refusal(`${name} must not be null; leave it out`);
  }
  return value;
}

function listOf(value: unknown, name: string, most: number): readonly unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new Refusal(`${name} must be an array`);
  if (value.length > most) throw new Refusal(`at most ${most} ${name}, got ${value.length}`, true);
  return value;
}

const addressesOf = (value: unknown, name: string, most: number): readonly string[] => [
  ...new Set(listOf(value, name, most).map((one, at) => addressOf(one, `${name}[${at}]`))),
];

function addressOf(value: unknown, place: string): string {
  if (typeof value !== 'string' || value.length > 44 || decode32(value) === null)
    throw new Refusal(`invalid pubkey at ${place}`);
  return value;
}

function rolesOf(value: unknown): ParsedFilter['roles'] {
  if (value === undefined) return [];
  if (!isPlainObject(value)) throw new Refusal('accounts.roles must be an object');
  const roles = Object.entries(value);
  if (roles.length > MAX_ROLES) throw new Refusal(`at most ${MAX_ROLES} accounts.roles, got ${roles.length}`, true);
  return roles.map(([name, address]) => {
    if (name === '' || name.length > MAX_NAME) throw new Refusal('invalid name in accounts.roles');
    return [name, addressOf(address, `accounts.roles.${name.slice(0, 64)}`)] as const;
  });
}

function flagOf(value: unknown, name: string, usual: boolean): boolean {
  if (value === undefined) return usual;
  if (typeof value !== 'boolean') throw new Refusal(`${name} must be true or false`);
  return value;
}

/** `sharedAccountsRoute` and `shared_accounts_route` are the same name. */
const plainName = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '');

/** A filter in the form in which it is compared. */
export interface CompiledFilter {
  /** Null: any. */
  readonly programs: ReadonlySet<string> | null;
  readonly include: ReadonlySet<string> | null;
  readonly includeFailed: boolean;
  readonly includeCpi: boolean;
  /** Whether a decoded instruction, or what there is of one that is not, has the wanted name and roles. */
  readonly takes: (instruction: ParsedInstruction) => boolean;
}

export function compileFilter({ programs, instructionNames, include, roles, ...flags }: ParsedFilter): CompiledFilter {
  const names = new Set(instructionNames.map(plainName));
  return {
    ...flags,
    programs: programs.length === 0 ? null : new Set(programs),
    include: include.length === 0 ? null : new Set(include),
    takes({ instructionName, decoded }) {
      if (names.size > 0 && (instructionName === null || !names.has(plainName(instructionName)))) return false;
      return roles.every(
        ([role, address]) => decoded?.accounts.some(({ name, pubkey }) => name === role && pubkey === address) ?? false,
      );
    },
  };
}

/** Addresses by one of which the filter is found: each instruction that it wants has one of them, in this place. */
export function placesOf({ programs, include, roles }: ParsedFilter): {
  readonly where: 'program' | 'account';
  readonly addresses: readonly string[];
} {
  // Roles and accounts are rarer in blocks than programs.
  const [role] = roles;
  if (role !== undefined) return { where: 'account', addresses: [role[1]] };
  if (include.length > 0) return { where: 'account', addresses: include };
  return { where: 'program', addresses: programs };
}
