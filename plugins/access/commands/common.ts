import type { Clock } from '../../../src/ports/clock.ts';
import type { Plans } from '../plans/plans.ts';
import type { Keys } from '../projects/keys.ts';
import type { Projects } from '../projects/projects.ts';
import type { Wallets } from '../projects/wallets.ts';

export interface CommandParts {
  readonly projects: Projects;
  readonly keys: Keys;
  readonly wallets: Wallets;
  readonly clock: Clock;
  readonly plans: () => Plans;
  readonly defaultPlan: string;
}

export type Options = Readonly<Record<string, string | boolean | undefined>>;

export const JSON_OPTION = { flags: '--json', description: 'one JSON document' };

/** The text of an option; undefined where it was not given. commander writes `--billing-day` as `billingDay`. */
export function textOf(options: Options, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

/** `a,b` as a list; undefined where the option was not given. */
export function listOption(options: Options, name: string): readonly string[] | undefined {
  const list = textOf(options, name)
    ?.split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');
  return list === undefined || list.length === 0 ? undefined : list;
}
