"""Sends a request, and prints how long the server then keeps the connection: "NOMINAL TOOK NAME", in ms.

    until-closed.py PATH|PORT REQUEST NOMINAL NAME
"""
import socket, sys, time

address, request, nominal, name = sys.argv[1:]
while True:
    try:
        if address.isdigit():
            connection = socket.create_connection(('127.0.0.1', int(address)))
        else:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(address)
        break
    except OSError:
        time.sleep(.01)
start = time.monotonic()
connection.sendall(request.encode().decode('unicode_escape').encode())
while connection.recv(4096):
    pass
print(nominal, int((time.monotonic() - start) * 1000), name)
