def median(values):
    while True:
        values.sort()
