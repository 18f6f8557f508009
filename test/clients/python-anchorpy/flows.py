"""anchorpy: its fetch of several accounts names a content encoding that it does not use."""

import asyncio
import os

from anchorpy import Provider, Wallet
from anchorpy.utils.rpc import get_multiple_accounts
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed
from solders.keypair import Keypair


async def main():
    client = AsyncClient(os.environ["PARHELION_URL"], Confirmed)
    keypair = Keypair()
    try:
        signature = (await client.request_airdrop(keypair.pubkey(), 1_000_000_000)).value
        await client.confirm_transaction(signature, Confirmed, sleep_seconds=0.2)
        Provider(client, Wallet(keypair))
        found = await get_multiple_accounts(client, [keypair.pubkey(), Keypair().pubkey()], commitment=Confirmed)
        assert found[0].account.lamports == 1_000_000_000 and found[1] is None, repr(found)
        print("ok get_multiple_accounts")
    except Exception as error:
        print(f"not ok get_multiple_accounts: {type(error).__name__}: {error}"[:400])
    await client.close()


asyncio.run(main())
