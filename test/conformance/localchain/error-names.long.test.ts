import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { INSTRUCTION_ERRORS, TRANSACTION_ERRORS } from '../../../packages/local-chain/vm/vm.ts';

/** Names of a numbered list in the engine's own declarations, by their numbers. */
function declared(text: string, name: string): string[] {
  const body = text.split(`enum ${name} {`)[1]?.split('}')[0] ?? '';
  const names: string[] = [];
  for (const [, item, number] of body.matchAll(/(\w+) = (\d+)/g)) names[Number(number)] = item!;
  return names;
}

test('names of errors are those that this release of the engine declares', () => {
  const path = createRequire(import.meta.url)
    .resolve('litesvm/dist/internal.js')
    .replace(/\.js$/, '.d.ts');
  const text = readFileSync(path, 'utf8');
  assert.deepEqual(TRANSACTION_ERRORS, declared(text, 'TransactionErrorFieldless'));
  assert.deepEqual(INSTRUCTION_ERRORS, declared(text, 'InstructionErrorFieldless'));
});
