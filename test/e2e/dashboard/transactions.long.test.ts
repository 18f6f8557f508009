/** A transaction in words, and the interfaces (IDLs) by which its instructions get their names, in a real browser over the local chain. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { createAssociatedTokenAccount, createMint, mintTo, transferChecked } from '@solana/spl-token';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  TransactionInstruction,
} from '@solana/web3.js';
import type { Browser, Page } from 'playwright-core';
import { encode } from '../../../src/lib/base58.ts';
import { type DashboardBed, startDashboard } from '../../conformance/dashboard/harness.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { choose, closePages, goTo, logIn, openPage } from './visit.ts';

const skip = chromiumMissing() ?? (await chainMissing()) ?? false;
const MEMO = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');

describe('transactions in words', { skip }, () => {
  let chain: TestChain;
  let bed: DashboardBed;
  let browser: Browser;
  const [payer, friend] = [Keypair.generate(), Keypair.generate()];
  let mint: PublicKey;
  /** Creates a token account, with calls of other programs. */
  let opened: string;
  let moved: string;
  let noted: string;
  let failed: string;

  before(async () => {
    chain = await startChain();
    const { connection } = chain;
    const confirm = { commitment: 'confirmed' } as const;
    await chain.fund(payer.publicKey.toBase58(), 10 * LAMPORTS_PER_SOL);
    mint = await createMint(connection, payer, payer.publicKey, null, 6, undefined, confirm);
    const ours = await createAssociatedTokenAccount(connection, payer, mint, payer.publicKey, confirm);
    const theirs = await createAssociatedTokenAccount(connection, payer, mint, friend.publicKey, confirm);
    [opened] = (await connection.getSignaturesForAddress(theirs)).map(({ signature }) => signature) as [string];
    await mintTo(connection, payer, mint, ours, payer, 2_000_000n, [], confirm);
    moved = await transferChecked(connection, payer, ours, mint, theirs, payer, 1_234_500n, 6, [], confirm);
    const memo = new TransactionInstruction({ programId: MEMO, keys: [], data: Buffer.from('pay 1') });
    noted = await sendAndConfirmTransaction(connection, new Transaction().add(memo), [payer], confirm);
    const tooMuch = SystemProgram.transfer({
      fromPubkey: payer.publicKey,
      toPubkey: friend.publicKey,
      lamports: 1_000 * LAMPORTS_PER_SOL,
    });
    const wrong = new Transaction({ feePayer: payer.publicKey, ...(await connection.getLatestBlockhash()) }).add(
      tooMuch,
    );
    wrong.sign(payer);
    failed = await connection.sendRawTransaction(wrong.serialize(), { skipPreflight: true });
    await chain.seal(2);
    bed = await startDashboard(
      {
        plugins: ['access', 'das', 'dashboard', 'history', 'parsed', 'proxy', 'token-metadata', 'wallet', 'webhooks'],
        webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] },
      },
      chain,
    );
    browser = await startChromium();
  });
  afterEach(() => closePages(browser));
  after(async () => {
    await browser?.close();
    await bed?.stop();
    await chain?.stop();
  });

  const short = ({ publicKey }: Keypair): string => {
    const text = publicKey.toBase58();
    return `${text.slice(0, 6)}…${text.slice(-6)}`;
  };
  const at = (page: Page, path: string) =>
    page.goto(`${bed.daemon.adminUrl}/dashboard#/p/${bed.daemon.projectId}/${path}`);

  test('a transfer is looked up by keyboard: what it moved, its instruction with names, and what the node says', async () => {
    const { page, faults } = await openPage(browser, bed);
    await logIn(page);
    await goTo(page, 'Look up');
    await page.getByLabel('Address or signature').fill(` ${moved} `);
    await page.keyboard.press('Enter');
    await page.getByText('Succeeded').waitFor();
    const movement = page.getByRole('table', { name: 'Moved' }).getByRole('row').nth(1);
    await movement.getByText('1.2345', { exact: true }).waitFor();
    await movement.getByRole('link', { name: mint.toBase58().slice(0, 6) }).waitFor();
    const instruction = page.locator('.calls > li');
    assert.equal(await instruction.count(), 1);
    await instruction.getByText('transfer_checked').waitFor();
    const pairs = instruction.locator('.pairs');
    await pairs.getByText('1234500', { exact: true }).waitFor();
    await instruction.getByRole('row', { name: /^(authority|owner) .*signer/ }).waitFor();
    await page.getByRole('radio', { name: 'Raw' }).focus();
    await page.keyboard.press('Space');
    await page
      .getByRole('region', { name: 'the transaction as the node answers' })
      .getByText('preTokenBalances')
      .waitFor();
    // An address leads to its own page.
    await page
      .getByRole('link', { name: mint.toBase58().slice(0, 6) })
      .first()
      .click();
    await page.waitForURL(new RegExp(`look-up/${mint.toBase58()}$`));
    assert.deepEqual(
      faults.filter((fault) => !fault.startsWith('console: Failed to load')),
      [],
    );
  });

  test('a token says who may change it and who holds it; a wallet what it did, page by page, and its balance over time', async () => {
    const { page, faults } = await openPage(browser, bed);
    await logIn(page);
    await at(page, `look-up/${mint.toBase58()}`);
    const facts = page.locator('.asset .facts');
    await facts.waitFor();
    const said = await facts.locator('> div').allTextContents();
    const wanted = ['Supply2', 'Decimals6', `Mint authority${short(payer)}`, 'ProgramSPL Token'];
    for (const fact of [...wanted, 'Freeze authoritynone: accounts cannot be frozen'])
      assert.ok(said.includes(fact), `${fact} in ${said.join(', ')}`);
    assert.equal(await page.getByText('No picture').count(), 0);
    const holders = page.getByRole('table', { name: 'Largest holders' });
    await holders.getByRole('row', { name: new RegExp(`^${short(friend)}.*1\\.2345 .*61\\.7 %`) }).waitFor();
    await holders.getByRole('row', { name: new RegExp(`^${short(payer)}.*0\\.7655 .*38\\.3 %`) }).waitFor();

    await holders.getByRole('link', { name: short(payer) }).click();
    await page.getByText('Wallet', { exact: true }).waitFor();
    const done = page.getByRole('table', { name: 'Latest transactions' });
    // The wallet is indexed when it is first asked for; until then the list has no words.
    for (let tries = 0; tries < 60 && (await done.getByText('What it did').count()) === 0; tries += 1) {
      await page.reload();
      await done.waitFor();
    }
    await done.getByRole('row', { name: /^This wallet transferred 1\.2345 .* to / }).waitFor();
    await done.getByRole('row', { name: /^(Called system|This wallet).*Failed/ }).waitFor();
    const { value: lamports } = await chain.connection.getBalanceAndContext(payer.publicKey, 'confirmed');
    const balance = page.getByRole('figure', { name: 'Balance of SOL' });
    await balance.getByText((lamports / LAMPORTS_PER_SOL).toLocaleString('en', { maximumFractionDigits: 9 })).waitFor();
    await page.getByText('SOL, since the first transaction').waitFor();
    // A wallet is no asset, which is asked first.
    assert.deepEqual(
      faults.filter((fault) => !fault.startsWith('console: Failed to load')),
      [],
    );
  });

  test('calls stand below the instruction that made them; a failure says which instruction failed, and why', async () => {
    const { page, faults } = await openPage(browser, bed);
    await logIn(page);
    await at(page, `look-up/${opened}`);
    const outer = page.locator('.calls > li').first();
    await outer.locator('> .calls > li').first().waitFor();
    assert.ok((await outer.locator('> .calls > li').count()) >= 3);
    await outer.locator('> .calls').getByText('initialize_account3').waitFor();
    await at(page, `look-up/${failed}`);
    await page.getByText('Failed', { exact: true }).waitFor();
    await page.getByText(/Instruction 1, system/).waitFor();
    await page.getByText('Nothing was moved').waitFor();
    await at(page, `look-up/${encode(Buffer.alloc(64, 7))}`);
    await page.getByText('There is no such transaction').waitFor();
    assert.deepEqual(faults, []);
  });

  test('an interface is uploaded by paste, names an instruction, and is deleted; a wrong one says what is wrong', async () => {
    const { page, faults } = await openPage(browser, bed);
    await logIn(page);
    await goTo(page, 'Interfaces');
    await page.getByText('No interfaces yet').waitFor();
    await page.getByLabel('Address of a program').fill(MEMO.toBase58());
    await page.keyboard.press('Enter');
    await page.getByRole('row', { name: /memo.*Built in.*All/ }).waitFor();
    const upload = async (idl: string) => {
      await page.getByRole('button', { name: 'Upload an interface' }).click();
      const dialog = page.getByRole('dialog', { name: 'Upload an interface' });
      await dialog.getByLabel('IDL', { exact: true }).fill(idl);
      await dialog.getByRole('button', { name: 'Upload', exact: true }).click();
      return dialog;
    };
    const wrong = await upload('{"instructions":1}');
    await wrong.getByText(/idl is not an IDL of Anchor, Codama or Shank/).waitFor();
    await wrong.getByRole('button', { name: 'Cancel' }).click();
    const cut = await upload('{"instructions":[');
    await cut.getByText('This is not a JSON object').waitFor();
    await cut.getByRole('button', { name: 'Cancel' }).click();
    await upload(
      JSON.stringify({
        metadata: { name: 'notes', address: MEMO.toBase58() },
        instructions: [{ name: 'pay_note', discriminator: [...Buffer.from('pay ')], accounts: [], args: [] }],
      }),
    );
    const known = page.getByRole('table', { name: 'Known interfaces' });
    await known.getByRole('row', { name: /notes.*This project.*All/ }).waitFor();
    await known.getByText('1 instruction').first().click();
    await known.getByText('pay_note').waitFor();
    await at(page, `look-up/${noted}`);
    await page.locator('.calls').getByText('pay_note').waitFor();
    // The program of an instruction leads to its interfaces.
    await page.locator('.calls').getByRole('link', { name: MEMO.toBase58() }).click();
    await page.getByRole('heading', { level: 1, name: 'Interfaces' }).waitFor();
    await page.getByRole('button', { name: /^Delete version 1/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('No interfaces yet').waitFor();
    await known.getByRole('row', { name: /notes/ }).waitFor({ state: 'detached' });
    await at(page, 'audit');
    assert.deepEqual(
      faults.filter((fault) => !fault.includes('400')),
      [],
    );
  });

  test('a parsed webhook is made and edited in the form; what is wrong stands at its field', async () => {
    const { page, faults } = await openPage(browser, bed);
    await logIn(page);
    await goTo(page, 'Webhooks');
    await page.getByRole('button', { name: 'New webhook' }).first().click();
    const form = page.getByRole('dialog');
    const field = (label: string) => form.getByLabel(label, { exact: true });
    await field('URL').fill('http://127.0.0.1:1/hook');
    await field('Type').selectOption('parsed');
    await form.getByRole('button', { name: 'Create webhook' }).click();
    await form.getByText('Give at least one program, or an account').waitFor();
    await field('Programs').fill(MEMO.toBase58());
    await field('Accounts by name').fill('authority');
    await form.getByRole('button', { name: 'Create webhook' }).click();
    await form.getByText('On each line a name and an address').waitFor();
    await field('Accounts by name').fill(`authority ${payer.publicKey.toBase58()}`);
    await field('Instructions').fill('transfer, pay_note');
    await field('Calls of other instructions').uncheck();
    await form.getByRole('button', { name: 'Create webhook' }).click();
    await page.getByRole('button', { name: 'I have stored it' }).click();
    const row = page.getByRole('row', { name: /127\.0\.0\.1:1.*Parsed.*2 instructions/ });
    await row.waitFor();
    await choose(row, 'Edit…');
    assert.equal(await field('Programs').inputValue(), MEMO.toBase58());
    assert.equal(await field('Instructions').inputValue(), 'transfer, pay_note');
    assert.equal(await field('Calls of other instructions').isChecked(), false);
    await field('Instructions').fill('');
    await field('Content').selectOption('matched');
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('row', { name: /Parsed.*all instructions/ }).waitFor();
    const response = await fetch(`${bed.daemon.apiUrl}/v0/webhooks?api-key=${bed.daemon.key}`);
    const [hook] = (await response.json()) as { parsedFilter: object; parsedDetails: string }[];
    assert.deepEqual(hook?.parsedFilter, {
      programs: [MEMO.toBase58()],
      instructionNames: [],
      includeFailed: false,
      includeCpi: false,
      accounts: { include: [], roles: { authority: payer.publicKey.toBase58() } },
    });
    assert.equal(hook?.parsedDetails, 'matched');
    assert.deepEqual(faults, []);
  });

  test('a webhook changes its type to parsed, and saving it again changes nothing', async () => {
    const address = payer.publicKey.toBase58();
    const ask = async (method: string, body?: object) => {
      const response = await fetch(`${bed.daemon.apiUrl}/v0/webhooks?api-key=${bed.daemon.key}`, {
        method,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return await response.json();
    };
    const webhookURL = 'http://127.0.0.1:2/change';
    await ask('POST', { webhookURL, transactionTypes: ['NFT_SALE'], accountAddresses: [address] });
    const stored = async () =>
      ((await ask('GET')) as { webhookURL: string }[]).find((one) => one.webhookURL === webhookURL);
    const { page } = await openPage(browser, bed);
    await logIn(page);
    await goTo(page, 'Webhooks');
    const row = page.getByRole('row').filter({ hasText: webhookURL });
    const form = page.getByRole('dialog');
    const field = (label: string) => form.getByLabel(label, { exact: true });
    const save = async () => {
      await form.getByRole('button', { name: 'Save' }).click();
      await form.waitFor({ state: 'detached' });
    };
    await choose(row, 'Edit…');
    await field('Type').selectOption('parsed');
    await field('Instructions').fill('transfer with seed, pay_note');
    await field('Accounts by name').fill(`new owner ${address}\nnew owner ${MEMO.toBase58()}`);
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByText('Give each name once').waitFor();
    await field('Accounts by name').fill(`new owner ${address}`);
    await save();
    const made = await stored();
    assert.deepEqual((made as unknown as { parsedFilter: object }).parsedFilter, {
      programs: [],
      instructionNames: ['transfer with seed', 'pay_note'],
      includeFailed: false,
      includeCpi: true,
      accounts: { include: [address], roles: { 'new owner': address } },
    });
    await choose(row, 'Edit…');
    await field('Instructions').waitFor();
    await save();
    assert.deepEqual(await stored(), made);
  });

  test('axe finds nothing on these pages, in both themes and at three widths, and nothing is cut off', async () => {
    for (const colorScheme of ['light', 'dark'] as const)
      for (const width of [390, 820, 1_440]) {
        const { page } = await openPage(browser, bed, {
          colorScheme,
          viewport: { width, height: 900 },
        });
        await logIn(page);
        const addresses = [mint, payer.publicKey].map((key) => `look-up/${key.toBase58()}`);
        for (const path of [
          ...addresses,
          `look-up/${opened}`,
          `look-up/${failed}`,
          'interfaces',
          `interfaces/${MEMO.toBase58()}`,
        ]) {
          await at(page, path);
          await page.locator('main h1').waitFor();
          await page.locator('main .skeleton').first().waitFor({ state: 'detached' });
          assert.deepEqual(await axeFaults(page), [], `${path} ${colorScheme} ${width}`);
          assert.ok(((await page.evaluate('document.documentElement.scrollWidth - innerWidth')) as number) <= 0, path);
        }
        await page.getByRole('button', { name: 'Upload an interface' }).click();
        assert.deepEqual(await axeFaults(page), [], `upload ${colorScheme} ${width}`);
        await page.context().close();
      }
  });
});
