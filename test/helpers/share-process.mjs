/**
 * Test files that take turns in one process: each becomes a suite, so that its hooks run around its own tests and not around those of the
 * others. All are loaded before the first one begins.
 */
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { countCost, FILE_TIMEOUT_MS, members, tests } from './test-process.mjs';

const runner = createRequire(import.meta.url)('node:test');
const { after, describe } = runner;
/** What the file that is loading has declared so far; null: what is declared belongs to the suite or test that runs. */
let declarations = null;

// Before the first import of them: files that import the runner get these.
for (const name of ['test', 'it', 'describe', 'suite', 'before', 'after', 'beforeEach', 'afterEach']) {
  const own = runner[name];
  const declare = (...args) => {
    const place = placeOfCall(declare);
    const now = () => declareAt(place, own, args);
    if (declarations === null) return now();
    declarations.push({ now, mark: globalThis.parhelionTestMark, isHook: /^(before|after)/.test(name) });
  };
  runner[name] = Object.assign(declare, own);
}

/** Runs the files one after the other. `only`: just their tests that are declared with this mark (`run-part.ts`). */
export async function takeTurns(urls, { env = {}, only } = {}) {
  Object.assign(process.env, env);
  const files = [];
  for (const url of urls) {
    const own = [];
    declarations = own;
    await import(url);
    countCost(url);
    members.push({ file: fileURLToPath(url), tests: own.filter((one) => isChosen(one, only)).length });
    files.push({ url, own });
  }
  declarations = null;
  globalThis.parhelionTestsRun = true;
  for (const { url, own } of files) {
    const title = url.replace(/^.*\/(test|src|plugins|packages)\//, '$1/').replace(/\.js$/, '.ts');
    const suite = () => {
      for (const { now, mark, isHook } of own)
        if (only === undefined || isHook || mark === only || mark === 'both') now();
      after(() => countCost(url));
    };
    declareAt({ file: fileURLToPath(url), line: 1, column: 1 }, describe, [title, { timeout: FILE_TIMEOUT_MS }, suite]);
  }
}

function isChosen({ mark, isHook }, only) {
  return !isHook && (only === undefined || mark === only || mark === 'both');
}

/** Reports, and the count of lost tests, go by the place that a test file itself declared a test at. */
function declareAt(place, declare, args) {
  // The first declaration of all also makes the root.
  const at = Math.max(1, tests.length);
  const result = declare(...args);
  tests[at].loc = place;
  return result;
}

function placeOfCall(callee) {
  const { prepareStackTrace } = Error;
  Error.prepareStackTrace = (_, [site]) => site;
  const call = {};
  Error.captureStackTrace(call, callee);
  const site = call.stack;
  Error.prepareStackTrace = prepareStackTrace;
  return { file: fileURLToPath(site.getFileName()), line: site.getLineNumber(), column: site.getColumnNumber() };
}
