import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { CodedError, messageOf } from '../../../src/lib/coded-error.ts';
import type { AccessPlans } from '../../../src/ports/access.ts';
import type { Queries, Store } from '../../../src/ports/store.ts';
import type { AccessConfig } from '../config.ts';
import { ACCESS_ERRORS } from '../errors.ts';
import { tables } from '../tables.ts';
import { createPlans, type Limits, type Plans, type PlansFile, plansSchema } from './plans.ts';

const CONFIG = 78;
const OWN_FILE = join('config', 'plans.yaml');

/** Reads the file of the plans; null is the one that comes with the program. Errors: ACCESS_PLANS_INVALID, exit 78. */
export function loadPlans(file: string | null): Plans {
  const path = file === null ? ownFile() : resolve(file);
  let value: unknown;
  try {
    value = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw invalid(path, [messageOf(error)]);
  }
  const problems = problemsOf(plansSchema, value);
  if (problems.length > 0) throw invalid(path, problems);
  return createPlans(value as PlansFile);
}

/** The nearest one above this file, which lies deeper once it is built. */
function ownFile(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  let path = join(folder, OWN_FILE);
  while (!existsSync(path) && folder !== dirname(folder)) {
    folder = dirname(folder);
    path = join(folder, OWN_FILE);
  }
  return path;
}

function invalid(path: string, problems: readonly string[]): CodedError {
  const message = `${ACCESS_ERRORS.ACCESS_PLANS_INVALID}: ${path}: ${problems.join('; ')}`;
  return new CodedError('ACCESS_PLANS_INVALID', message, { exitCode: CONFIG, facts: { path, problems } });
}

/** Everything that is wrong with a value, each with its place; empty when it fits. */
export function problemsOf(schema: TSchema, value: unknown): readonly string[] {
  // Compiling the schema takes longer than all else that the plans take of a start; it is needed to say what is wrong.
  if (Value.Check(schema, value)) return [];
  const ajv = new Ajv({ strict: false, allErrors: true, code: { optimize: false } });
  const check = ajv.compile(schema);
  if (check(value)) return [];
  const lines = (check.errors ?? [])
    // What each branch of a union says is one message too many.
    .filter(({ keyword }) => keyword !== 'anyOf')
    .map(({ instancePath, message, params }) => {
      const unknown: unknown = params['additionalProperty'];
      const place = instancePath === '' ? 'the file' : instancePath.slice(1).replaceAll('/', '.');
      return typeof unknown === 'string' ? `${place}: unknown key "${unknown}"` : `${place}: ${message}`;
    });
  return [...new Set(lines)];
}

/** Every plan that configuration and projects name has to exist. Errors: ACCESS_UNKNOWN_PLAN, exit 78. */
export async function checkStoredPlans(store: Store, plans: Plans, config: AccessConfig): Promise<void> {
  const used = await tables(store.read).selectFrom('projects').select('plan').distinct().execute();
  const missing = [config.defaultPlan, ...used.map(({ plan }) => plan)].filter((plan) => !plans.has(plan));
  if (missing.length === 0) return;
  throw new CodedError(
    'ACCESS_UNKNOWN_PLAN',
    `${ACCESS_ERRORS.ACCESS_UNKNOWN_PLAN}: ${[...new Set(missing)].join(', ')}`,
    {
      exitCode: CONFIG,
    },
  );
}

/** What other plugins may ask about the plan of a project. */
export function createAllowance(plans: () => Plans): AccessPlans {
  const limitsOf = async (db: Queries, projectId: string): Promise<Limits | null> => {
    const row = await tables(db)
      .selectFrom('projects')
      .select(['plan', 'overrides'])
      .where('id', '=', projectId)
      .executeTakeFirst();
    return row === undefined ? null : plans().limitsOf(row.plan, row.overrides);
  };
  return {
    maxWebhooks: async (db, projectId) => (await limitsOf(db, projectId))?.webhooks.max ?? null,
    maxAddresses: async (db, projectId) => (await limitsOf(db, projectId))?.webhooks.addressesPerWebhook ?? null,
    budgets: async (db, projectId) => (await limitsOf(db, projectId))?.budgets ?? null,
  };
}
