def median(values):
    everything = []
    while True:
        everything.append(bytearray(8 << 20))
