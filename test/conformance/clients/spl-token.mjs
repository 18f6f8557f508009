import assert from 'node:assert/strict';
import {
  burn,
  closeAccount,
  createAssociatedTokenAccount,
  createMint,
  getAccount,
  mintTo,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
  transfer,
} from '@solana/spl-token';
import { Connection, Keypair } from '@solana/web3.js';

/** @solana/spl-token: the life of a token under both programs. */
export default async ({ url, socketUrl, funded, ends }) => {
  const connection = new Connection(url, { commitment: 'confirmed', wsEndpoint: socketUrl });
  ends.push(() => {
    connection._rpcWebSocket.reconnect = false;
    connection._rpcWebSocket.close(1000);
  });
  const payer = Keypair.fromSecretKey(await funded());
  const life = (program) => async () => {
    const options = [{ commitment: 'confirmed' }, program];
    const mint = await createMint(connection, payer, payer.publicKey, null, 6, undefined, ...options);
    const ours = await createAssociatedTokenAccount(connection, payer, mint, payer.publicKey, ...options);
    const friend = Keypair.generate().publicKey;
    const theirs = await createAssociatedTokenAccount(connection, payer, mint, friend, ...options);
    await mintTo(connection, payer, mint, ours, payer, 1_000_000n, [], ...options);
    await transfer(connection, payer, ours, theirs, payer, 400_000n, [], ...options);
    await burn(connection, payer, ours, mint, payer, 600_000n, [], ...options);
    await closeAccount(connection, payer, ours, payer.publicKey, payer, [], ...options);
    assert.equal((await getAccount(connection, theirs, 'confirmed', program)).amount, 400_000n);
    const { value } = await connection.getTokenSupply(mint);
    assert.equal(value.amount, '400000');
  };
  return { 'a token': life(TOKEN_PROGRAM_ID), 'a token of Token-2022': life(TOKEN_2022_PROGRAM_ID) };
};
