import asyncio
import os

from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed
from solana.rpc.websocket_api import SolanaWsClient
from solders.pubkey import Pubkey

URL = os.environ["PARHELION_URL"]  # http://127.0.0.1:8787/?api-key=KEY
WS = os.environ["PARHELION_WS"]  # ws://127.0.0.1:8788/?api-key=KEY


async def main():
    async with AsyncClient(URL) as client:
        print("slot", (await client.get_slot(Confirmed)).value)
        wallet = Pubkey.from_string("11111111111111111111111111111111")
        print("lamports", (await client.get_balance(wallet, Confirmed)).value)

    async with SolanaWsClient(WS) as socket:
        await socket.slot_subscribe()
        notification = await socket.recv()
        print("notified of slot", notification.result.slot)


asyncio.run(main())
