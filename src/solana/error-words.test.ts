import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERROR_NAMES } from './error-bytes.ts';
import { errorText } from './error-words.ts';

test('each error of a transaction and of an instruction has words', () => {
  assert.equal(errorText('BlockhashNotFound'), 'Blockhash not found');
  assert.equal(
    errorText({ InstructionError: [2, 'InvalidArgument'] }),
    'Error processing Instruction 2: invalid program argument',
  );
  assert.equal(
    errorText({ InstructionError: [0, { Custom: 26 }] }),
    'Error processing Instruction 0: custom program error: 0x1a',
  );
  assert.equal(
    errorText({ InsufficientFundsForRent: { account_index: 3 } }),
    'Transaction results in an account (3) with insufficient funds for rent',
  );
  const unsaid = new Set(['BailOut', 'CommitCancelled', 'Custom', 'ResanitizationNeeded']);
  const { transaction, instruction } = ERROR_NAMES;
  // Those with a value have other forms.
  const valued = new Set([
    'InstructionError',
    'DuplicateInstruction',
    'InsufficientFundsForRent',
    'ProgramExecutionTemporarilyRestricted',
  ]);
  for (const name of transaction) if (!unsaid.has(name) && !valued.has(name)) assert.match(errorText(name), / /, name);
  for (const name of instruction)
    if (!unsaid.has(name))
      assert.match(
        errorText({ InstructionError: [0, name] }).slice('Error processing Instruction 0: '.length),
        / /,
        name,
      );
});

test('what is of no known form is shown as it is', () => {
  for (const error of [null, 7, [], {}, { InstructionError: 'x' }, { InsufficientFundsForRent: null }, { New: [1] }])
    assert.equal(errorText(error), JSON.stringify(error));
  assert.equal(errorText('constructor'), 'constructor');
  assert.equal(
    errorText({ InstructionError: [1, { constructor: 1 }] }),
    'Error processing Instruction 1: {"constructor":1}',
  );
});
